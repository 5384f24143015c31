"""`countersign doctor`: checks of settings, policy, Slack, databases, tools and model."""
