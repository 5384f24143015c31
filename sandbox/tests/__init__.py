"""The strict local Slack, held against slack_sdk, Bolt and recorded payloads."""
