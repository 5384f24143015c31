"""Requests of programs: from Python beside the bot, and from sources that others install."""
