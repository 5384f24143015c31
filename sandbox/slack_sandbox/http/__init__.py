"""The control interface over HTTP, files, and the consent page."""
