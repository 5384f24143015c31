"""The process in which statements are parsed, tried out and run: what one of them takes, of time or
memory, is not the bot's, and the process can be ended at any moment.
"""
