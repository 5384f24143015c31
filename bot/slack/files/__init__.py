"""Files that people attach to messages: fetched from Slack, looked at, kept for the model."""
