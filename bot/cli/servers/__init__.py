"""The commands about MCP servers."""
