"""The stand-in for the model."""
