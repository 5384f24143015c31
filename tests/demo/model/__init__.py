"""The demo's stand-in for the model, and the tests' stricter one."""
