"""Checks that `countersign doctor` and a running bot make: Slack, people, the policy's rules."""
