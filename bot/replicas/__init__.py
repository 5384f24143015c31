"""Several processes on one database: who is alive, who works on what, what one tells another.

None of it decides anything, and a process that is alone with its database imports none of it.
"""
