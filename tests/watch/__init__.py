"""The Slack edge."""
