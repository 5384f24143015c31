"""Several workspaces in one sandbox: separate and shared data, and an app in several."""
