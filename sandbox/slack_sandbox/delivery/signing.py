"""Request signatures, version v0, as Slack puts them on every HTTP request to an app.

Pure functions; https://docs.slack.dev/authentication/verifying-requests-from-slack says how.
"""

from __future__ import annotations

import hashlib
import hmac


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """The value of X-Slack-Signature for a raw body sent at `timestamp` (Unix seconds)."""
    digest = hmac.new(secret.encode(), f"v0:{timestamp}:".encode() + body, hashlib.sha256)
    return f"v0={digest.hexdigest()}"


def signed(secret: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The two headers that let an app check that a request is Slack's and new."""
    return {
        "X-Slack-Request-Timestamp": str(timestamp),
        "X-Slack-Signature": signature(secret, timestamp, body),
    }
