"""Sub-agents: the runs that calls are entrusted to, what they may do, and how they end."""
