"""The connection to an MCP server, for the bot's own servers and for the proxy.

Imports nothing of the bot.
"""
