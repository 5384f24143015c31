"""Arguments that a JSON Schema describes."""
