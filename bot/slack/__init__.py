"""The Slack side: listeners (incoming deliveries), outbox (outgoing messages), and dialogs.

It does not use OpenAI.
"""
