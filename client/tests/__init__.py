"""The client alone, without a bot; how it asks one is in tests/client."""
