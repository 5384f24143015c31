"""The record: tables, the two state machines, and the one door through which a status changes.

Knows no Slack, no OpenAI and no scheduler; `bot` imports `storage`, never the other way round.
"""
