"""Who may decide about a call, what counts, what it leads to, and where the card goes."""
