"""Answers that are written while the model speaks, where Slack streams."""
