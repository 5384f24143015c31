"""The commands by which the operator sees what waits and decides it."""
