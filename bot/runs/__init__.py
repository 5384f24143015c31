"""Advancing requests: the loop, the intake of messages, the worker and the executor of approved
calls.
"""
