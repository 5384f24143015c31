"""A proxy between an MCP host and a server: a tool call runs once people have approved it."""
