"""Blocks, elements and views checked as Slack checks them."""
