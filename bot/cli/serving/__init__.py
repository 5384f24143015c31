"""The command that is the bot over HTTP."""
