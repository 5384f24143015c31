"""The product works on a record of many requests that the benchmark makes in SQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import growth
from bench.figures import Setup


@pytest.mark.long
def test_each_step_is_timed_in_a_large_and_a_small_record(tmp_path: Path) -> None:
    """In a file, and on a server if PostgreSQL is installed."""
    found = {each.name: each for each in growth.measure(Setup(tmp_path, quick=True))}
    places = {name.split(".")[1] for name in found}
    assert "file" in places
    for place in places:
        for step in growth.STEPS:
            assert found[f"growth.{place}.{step}"].value > 0
            assert found[f"growth.{place}.{step}.ratio"].aim == growth.GROWN
