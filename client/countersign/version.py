"""The version, which the client, the bot and the local Slack share."""

VERSION = "0.1.0"
