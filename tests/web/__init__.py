"""Tests of the HTTP side."""
