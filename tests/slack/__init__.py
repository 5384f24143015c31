"""Tests of the connection between the bot and Slack."""
