"""The commands that ask people before something else goes on: a job, a coding agent."""
