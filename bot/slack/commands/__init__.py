"""The slash command: what can be asked, and how it is answered."""
