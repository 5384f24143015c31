"""The terminal: a second place beside Slack where one named person sees what waits and decides."""
