"""MCP hosts that use the proxy, and the servers behind it."""
