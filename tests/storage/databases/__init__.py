"""A database of every revision that has landed, as its build left it when it was killed at work."""
