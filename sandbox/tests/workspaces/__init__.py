"""Several workspaces in one sandbox: what is of each, what is shared, and an app in many."""
