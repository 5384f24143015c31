"""Tests of one installation of the bot for many workspaces."""
