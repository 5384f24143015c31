"""The connection to the model: transcript in, Reply or Proposal out. Knows no Slack client."""
