"""Many workspaces in one installation of the bot: installed by OAuth, tokens encrypted."""
