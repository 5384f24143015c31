"""Webhooks: programs' addresses are told how their requests stand, as Standard Webhooks has it."""
