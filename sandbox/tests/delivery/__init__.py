"""How payloads reach an app: Socket Mode and signed HTTP."""
