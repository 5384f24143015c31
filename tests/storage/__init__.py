"""Tests of the record itself: a real SQLite file, real threads and processes, no Slack and no
model.
"""
