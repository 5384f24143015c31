"""The terminal, where one named person, the operator, sees what waits and decides."""
