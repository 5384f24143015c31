"""The Slack edge: listeners (in), outbox (out), and pure drawing of rows as blocks.

Knows no OpenAI.
"""
