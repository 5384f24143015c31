"""A bot that programs ask over HTTP, and API keys for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bot.config.connection_settings import Transport
from tests.client_keys import NewKey, make_key
from tests.stories.fakes import FakeTools
from tests.stories.harness import Harness
from tests.web.api.program import Program

NUMBERS = itertools.count(1)
NewProgram = Callable[..., Program]
POLICY = """
[defaults]
approvers = ["@shop-leads"]  # Ana and Cleo
deadline = "1h"

[[rule]]
tool = "wipe"
verdict = "ask"
quorum = 2

[[rule]]
tool = "put"
when = 'client == "trusted"'
verdict = "allow"

[[rule]]
tool = "explode"
verdict = "deny"
reason = "nothing explodes here"
"""


@pytest.fixture(scope="session")
def asked_bot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Harness, FakeTools]]:
    """The whole product with a policy for programs, and its tools."""
    fakes = FakeTools()
    folder = tmp_path_factory.mktemp("api")
    harness = Harness(folder, fakes.tools, POLICY, Transport.HTTP)
    yield harness, fakes
    harness.close()


@pytest.fixture
def bot(asked_bot: tuple[Harness, FakeTools]) -> Iterator[Harness]:
    """The same bot, with nothing left to do."""
    harness, _ = asked_bot
    harness.settle()
    yield harness
    harness.reset()


@pytest.fixture
def fakes(asked_bot: tuple[Harness, FakeTools]) -> FakeTools:
    """The bot's tools, and what they did."""
    return asked_bot[1]


@pytest.fixture
def new_program(bot: Harness) -> NewProgram:
    """A function that makes a program with a key of its own, which belongs to Ben."""

    def make(name: str = "", harness: Harness = bot, **more: Any) -> Program:
        name = name or f"program-{next(NUMBERS)}"
        return Program(harness, make_program_key(harness, name, **more).key, name)

    return make


def make_program_key(harness: Harness, name: str, person: str = "@ben", **more: Any) -> NewKey:
    """Make a new key of the running bot."""
    record = harness.app.core.store.path
    return make_key(record, name, person, **{"tools": ("*",), **more})
