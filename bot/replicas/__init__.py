"""Cooperation of several processes on one database: who is alive, who does what, notifications.

Nothing here decides about calls, and a process that is alone with its database does not import the
parts that need PostgreSQL.
"""
