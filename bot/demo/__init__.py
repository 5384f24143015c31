"""The demo: a local Slack, a stand-in for the model and the bot, in one process."""
