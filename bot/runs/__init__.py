"""The work on runs: the loop, intake of messages, the worker and the executor of approved calls."""
