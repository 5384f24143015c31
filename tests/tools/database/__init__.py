"""The database tools, on SQLite and on PostgreSQL."""
