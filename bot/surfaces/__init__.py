"""Where people see what goes on and decide, beside Slack: the port, and what is found behind it."""
