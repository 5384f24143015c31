"""A local Slack and a local planner, for the demo and the tests.

Imported by `bot.__main__` and tests only.
"""
