"""What is looked up in Slack: asked once, by threads of its own, and remembered for a while."""
