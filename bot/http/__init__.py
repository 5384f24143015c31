"""HTTP connections that stay open, for whoever does without the layers of its client."""
