"""The workspace's state and the events that come of its changes."""
