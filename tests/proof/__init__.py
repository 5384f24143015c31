"""What `make proof` tries at length and `make test` samples: many orders of events, new seeds."""
