"""MCP servers as tools: connections, what is accepted, results, and what people see of it."""
