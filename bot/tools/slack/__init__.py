"""Tools for Slack itself: channels, people, topics, posts. They are handed a client."""
