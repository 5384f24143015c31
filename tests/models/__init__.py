"""The bot with a real model server, built by `make test-llama`; skipped without it."""
