"""The HTTP side: Slack's signed requests, the API for programs, MCP hosts, health and metrics.

Only this package uses the libraries that it needs (the extra `serve`); it is imported late.
"""
