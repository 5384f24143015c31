"""A strict stand-in for the model: it refuses what OpenAI's servers refuse, and can be told to
fail.
"""
