"""A local Slack in which Countersign is installed, for the tests and the benchmark."""

from __future__ import annotations

from pathlib import Path

from slack_sandbox.server import Sandbox
from slack_sandbox.setup.manifests import read_manifest
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.workspace.clock import Clock
from slack_sandbox.workspace.seed import Seed

MANIFEST = Path(__file__).parents[1] / "bot" / "manifest.yml"


def read_countersign_manifest() -> Json:
    """Return the app manifest with which Countersign is installed."""
    return read_manifest(MANIFEST)


def build_local_slack(
    clock: Clock | None = None,
    seed: Seed | None = None,
    port: int = 0,
    *,
    shares_clock: bool = False,
) -> Sandbox:
    """Return a new local Slack in which Countersign is installed; see `Sandbox`."""
    return Sandbox(read_countersign_manifest(), clock, seed, port, shares_clock=shares_clock)
