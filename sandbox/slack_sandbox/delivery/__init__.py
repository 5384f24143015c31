"""Payloads on their way to apps: Socket Mode and signed HTTP."""
