"""Agents of other frameworks and MCP servers of others, with their real packages."""
