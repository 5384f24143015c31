"""How the bot is watched while it works: its log, its metrics, its traces."""
