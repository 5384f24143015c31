"""Facts about Slack's Web API methods: scopes, tiers, arguments, errors."""
