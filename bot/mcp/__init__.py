"""MCP servers whose tools the agent may use: their file, the accepted tools, the connections."""
