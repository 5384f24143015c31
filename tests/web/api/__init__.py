"""Programs over HTTP: keys, requests, webhooks, and what the API says of itself."""
