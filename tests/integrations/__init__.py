"""Agents of other frameworks, each with its real package, whose tools people approve in Slack."""
