"""The API at which programs put calls before people over HTTP: it asks, and decides nothing."""
