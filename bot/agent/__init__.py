"""The model edge: transcript in, Reply or Plan out. Knows no Slack client."""
