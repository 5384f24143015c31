"""What is tried at length, and sampled in `make test`: every order of things, on fresh seeds."""
