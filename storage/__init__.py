"""The record: tables, state machines, all queries, and the one module that changes a status.

Knows no Slack, no OpenAI and no scheduler; `bot` imports `storage`, never the other way round.
"""
