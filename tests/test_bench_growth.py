"""A record of many requests, made in SQL, is one that the product works on."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import growth
from bench.figures import Setup


@pytest.mark.long
def test_a_record_of_years_beside_a_small_one(tmp_path: Path) -> None:
    """Each step of a request is timed in both, in a file and on a server where there is one."""
    found = {each.name: each for each in growth.measure(Setup(tmp_path, quick=True))}
    places = {name.split(".")[1] for name in found}
    assert "file" in places
    for place in places:
        for step in growth.STEPS:
            assert found[f"growth.{place}.{step}"].value > 0
            assert found[f"growth.{place}.{step}.ratio"].aim == growth.GROWN
