"""MCP servers as tools: connections, accepted tools, results, logins, questions."""
