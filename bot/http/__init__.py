"""The HTTP side: Slack's signed requests, and what machines ask about the process.

Of the packages that it needs (the extra `serve`) nothing else knows; it is imported late.
"""
