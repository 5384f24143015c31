"""The shape of the code, as tests: imports, sizes, names, each with faults planted for it."""
