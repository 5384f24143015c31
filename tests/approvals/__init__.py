"""Tests of what decides on a call: facts, permissions, grants."""
