"""Conditions of rules in CEL: parsed by a library, evaluated here, bounded and exact. Pure."""
