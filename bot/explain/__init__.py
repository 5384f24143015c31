"""Why policy says what it says: one call explained, recorded calls replayed."""
