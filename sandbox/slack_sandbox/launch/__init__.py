"""An app as a child of the sandbox: pointed at it from outside, and kept from the real Slack."""
