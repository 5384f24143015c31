"""A local Slack and a local planner, for the demo and the tests.

Imported by the two commands that start it (`demo`, `sandbox`) and by tests only.
"""
