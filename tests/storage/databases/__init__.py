"""A database of every landed revision, as its build left it when it was killed at work."""
