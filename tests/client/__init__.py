"""Programs that ask people over HTTP, against the whole bot."""
