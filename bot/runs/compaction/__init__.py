"""Threads longer than the model can read: what goes to it instead of their beginning."""
