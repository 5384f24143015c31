"""The commands that keep the record safe: a backup of it, one put back, all of it moved."""
