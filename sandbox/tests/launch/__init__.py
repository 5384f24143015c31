"""Apps that the sandbox starts."""
