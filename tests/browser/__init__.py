"""The sandbox's page in headless Chromium."""
