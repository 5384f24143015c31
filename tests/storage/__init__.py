"""Tests of the record: a real SQLite file, real threads and processes, no Slack, no model."""
