"""`countersign doctor --live`: everything the bot asks of Slack, tried once in a real workspace."""
