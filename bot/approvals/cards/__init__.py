"""Cards: what they show, which of them a plan needs, and where they go. Nothing is sent here."""
