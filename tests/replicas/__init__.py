"""One of several processes on a database: its clock, its channels, its share of work."""
