"""What people may see of what is on record: lists, and a request's whole life."""
