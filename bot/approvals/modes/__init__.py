"""The mode of a channel: who may switch it, and who is told."""
