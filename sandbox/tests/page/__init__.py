"""Tests of the sandbox's page: its files, and what a person sees and does in a browser."""
