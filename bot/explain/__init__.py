"""Explanations of the policy: one call explained, recorded calls replayed, decisions reported."""
