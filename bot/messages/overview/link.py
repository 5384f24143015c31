"""Addresses of messages in Slack. Pure."""

from __future__ import annotations

import re

# as Slack writes them: the channel, the message's ts without its dot, and where it is a reply,
# the ts of its thread
_LINK = re.compile(
    r"<?https?://[^\s/<>|]+/archives/([CGD][A-Z0-9]+)/p(\d{10})(\d{6})"
    r"(?:\?(?:[^\s<>|]*&)?thread_ts=(\d{10}\.\d{6}))?[^\s<>|]*(?:\|[^<>]*)?>?"
)
_ID = re.compile(r"[A-Za-z0-9_-]{22}|#[0-9a-f]{8,64}")


def permalink(workspace: str, channel: str, ts: str, thread_ts: str = "") -> str:
    """Return the address of a message, by that of its workspace; "" where either is not known."""
    if not (workspace and ts and channel[:1] in ("C", "G", "D")):
        return ""
    link = f"{workspace.rstrip('/')}/archives/{channel}/p{ts.replace('.', '')}"
    in_thread = thread_ts and thread_ts != ts
    return f"{link}?thread_ts={thread_ts}&cid={channel}" if in_thread else link


def place_of(link: str) -> tuple[str, str, str] | None:
    """Return the channel, ts and thread of the message at that address; None for what is none."""
    found = _LINK.fullmatch(link)
    if found is None:
        return None
    channel, seconds, fraction, thread = found.groups()
    ts = f"{seconds}.{fraction}"
    return channel, ts, thread or ts


def is_reference(text: str) -> bool:
    """Return whether this is the address of a message, an id of the record, or a fingerprint."""
    return place_of(text) is not None or bool(_ID.fullmatch(text.strip("`")))
