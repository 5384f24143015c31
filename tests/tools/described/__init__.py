"""Tests of tools whose arguments are described by a JSON Schema."""
