"""Many workspaces in one installation of the bot."""
