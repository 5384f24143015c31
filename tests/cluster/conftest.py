"""A cluster for each test; skipped if PostgreSQL or Procrastinate is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster, cluster_in
from tests.postgres_server import binaries


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A server, a local Slack and a model; no replica has started."""
    if binaries() is None or find_spec("procrastinate") is None:
        pytest.skip("PostgreSQL or Procrastinate is not installed: nothing is tested of replicas")
    with cluster_in(tmp_path) as made:
        yield made
