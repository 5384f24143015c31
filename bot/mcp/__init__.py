"""MCP servers whose tools the agent may use: which there are, what was accepted of them, one
connection to each.
"""
