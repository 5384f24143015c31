"""The model edge: transcript in, Reply or Proposal out. Knows no Slack client."""
