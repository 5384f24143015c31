"""Stops of each serving command by signals at random moments, while something hangs."""
