"""The demo's shop: its data, its rules, and the tools for its orders."""
