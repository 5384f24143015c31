"""The whole product on the local Slack's page, in headless Chromium."""
