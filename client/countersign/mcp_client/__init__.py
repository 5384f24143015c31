"""The connection to an MCP server, for the bot's own servers and for the proxy; imports nothing of
the bot but its version.
"""
