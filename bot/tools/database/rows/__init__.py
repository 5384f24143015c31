"""The rows that a change touches, before and after: how they are found, compared and shown."""
