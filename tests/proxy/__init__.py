"""MCP hosts before the proxy, and servers behind it."""
