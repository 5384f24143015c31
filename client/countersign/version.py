"""Which version this is; the bot and the local Slack are released with the same."""

VERSION = "0.1.0"
