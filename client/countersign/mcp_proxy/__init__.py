"""Stands between an MCP host and a server: a tool runs once people have approved it."""
