"""Somebody decides for another: given, ended, and who is asked besides."""
