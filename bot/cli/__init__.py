"""The bot's commands, by subject."""
