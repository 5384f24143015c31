"""How the edges to Slack and to the model are put together, each by itself."""
