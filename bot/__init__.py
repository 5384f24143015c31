"""Countersign: a Slack bot whose agent proposes and whose people countersign."""

__version__ = "0.1.0"
