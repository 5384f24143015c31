"""The operator's configuration: the environment and .env, limits, and the files the settings name.

It is above the tools, since the settings name their databases, and below all that is built.
"""
