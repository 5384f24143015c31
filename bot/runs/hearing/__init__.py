"""How words become the agent's: from a message in Slack, or typed elsewhere."""
