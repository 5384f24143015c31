"""Explaining a call, replaying recorded calls, and the report."""
