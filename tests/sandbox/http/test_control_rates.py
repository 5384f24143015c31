"""Rate limits, switched over HTTP; faults are tried in test_faults_by_person."""

from __future__ import annotations

import json
from urllib.request import Request, urlopen

from bot.sandbox.server import Sandbox


def test_rate_limits_are_switched_on_and_off(sandbox: Sandbox) -> None:
    """Rate limits are switched on and off."""
    headers = {"Content-Type": "application/json"}
    for enabled in (True, False):
        body = json.dumps({"enabled": enabled}).encode()
        urlopen(Request(f"{sandbox.url}/sandbox/rates", body, headers)).close()
        assert sandbox.rates.enabled is enabled
