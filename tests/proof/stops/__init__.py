"""Ends of each command that serves, by signals at random moments, while something hangs."""
