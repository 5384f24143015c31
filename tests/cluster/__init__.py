"""Several processes of the bot on one database: kills, freezes, cuts, restarts, clocks."""
