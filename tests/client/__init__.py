"""Programs that ask people by HTTP, against the whole bot."""
