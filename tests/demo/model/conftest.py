"""A running stand-in and a real OpenAI client for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from openai import OpenAI

from tests.model_stand_in.planner import StrictPlanner


@pytest.fixture
def planner() -> Iterator[StrictPlanner]:
    with StrictPlanner() as running:
        yield running


@pytest.fixture
def client(planner: StrictPlanner) -> Iterator[OpenAI]:
    with OpenAI(base_url=planner.url, api_key="sk-offline", max_retries=0, timeout=10) as made:
        yield made
