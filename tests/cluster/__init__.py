"""Several processes of the bot on one database, and what may happen to them: a script each."""
