"""Asking without the agent: what may be asked for, and the form of one of them; pure."""
