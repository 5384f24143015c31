"""Blocks and views as the local Slack checks them."""
