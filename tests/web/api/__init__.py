"""Tests of the API for programs: keys, requests, webhooks, hooks, and its description."""
