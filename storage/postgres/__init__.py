"""All that is PostgreSQL's own: sessions, one writer at a time, the append-only triggers."""
