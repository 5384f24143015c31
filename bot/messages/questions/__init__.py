"""Questions to people: the message, its form, and the answer as words. Pure."""
