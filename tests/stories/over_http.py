"""Slack's app with request URLs, as docs/http.md describes, and a bot that listens there."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection
from typing import Any

import yaml

from slack_sandbox.ports import UNASSIGNED_PORTS, any_free
from tests.pages import ROOT, blocks

PAGE = ROOT / "docs" / "http.md"
THERE = "https://countersign.example.com"  # the bot's address in the page's example
_given_ports: deque[int] = deque(maxlen=100)


def edit(url: str) -> dict[str, Any]:
    """Return the page's changes to the manifest for a bot at this address."""
    (text,) = (each for each in blocks(PAGE, "yaml") if "request_url" in each)
    found: dict[str, Any] = yaml.safe_load(text.replace(THERE, url))
    return found


def asked_at(manifest: dict[str, Any], url: str) -> None:
    """Change a manifest as the page says, in place, so that Slack uses it at once."""
    _merge(manifest, edit(url))


def _merge(into: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        elif isinstance(value, list):  # the commands, each with its own URL
            for place, each in zip(into[key], value, strict=True):
                _merge(place, each)
        else:
            into[key] = value


def free_port() -> int:
    """Return a port that is free, for a process that listens there also after a restart.

    Each of pytest's workers has a thousand of its own; the last hundred are not given again.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    own = UNASSIGNED_PORTS[int(worker) * 1_000 :][:1_000] if worker else UNASSIGNED_PORTS
    while (port := any_free(own)) in _given_ports:
        pass
    _given_ports.append(port)
    return port


def is_ready(address: str) -> bool:
    """Whether a ready bot listens at this address."""
    connection = HTTPConnection(address, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()
