"""A strict stand-in for the model: it refuses what OpenAI's servers do, and fails when told to."""
