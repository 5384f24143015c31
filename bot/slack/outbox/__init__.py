"""What Slack has yet to be told: lanes that hand it out, a sender, and what they remember."""
