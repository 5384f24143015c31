"""What `countersign doctor` and a working bot both look at: Slack, people, the policy's rules."""
