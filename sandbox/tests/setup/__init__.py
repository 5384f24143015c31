"""Manifests and seed files."""
