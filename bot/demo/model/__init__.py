"""A stand-in for the model's server: plans by simple phrases, for the demo."""
