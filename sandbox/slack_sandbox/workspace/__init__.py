"""What exists in the local workspace: people, channels, messages, apps, and what happened."""
