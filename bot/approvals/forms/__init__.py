"""Requests that a person makes with a form: what they may ask for, what they filled in."""
