"""The sandbox's tables and payloads against Slack's own."""
