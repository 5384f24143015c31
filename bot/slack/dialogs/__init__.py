"""Dialogs: opened from rows, checked when they are submitted; each kind is a family."""
