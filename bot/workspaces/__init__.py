"""One installation for many workspaces: installing by OAuth, their tokens, and an app for each."""
