"""Explaining and replaying."""
