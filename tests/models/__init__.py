"""The bot with a real server of models, which `make test-llama` builds; skipped where it is not."""
