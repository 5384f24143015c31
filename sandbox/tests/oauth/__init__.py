"""Installing an app by OAuth: the consent page, and the tokens."""
