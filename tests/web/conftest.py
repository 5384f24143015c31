"""A bot to which requests are sent, and somebody who signs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.config.connection_settings import Transport
from tests.stories.fakes import FakeTools
from tests.stories.harness import Harness
from tests.web.requests import Sender


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """The whole product, with Slack's requests over signed HTTP."""
    folder = tmp_path_factory.mktemp("served")
    harness = Harness(folder, FakeTools().tools, transport=Transport.HTTP)
    yield harness
    harness.close()


@pytest.fixture
def bot(served: Harness) -> Harness:
    """The same bot, with nothing left to do."""
    served.settle()
    return served


@pytest.fixture
def sender(bot: Harness) -> Sender:
    """Somebody who knows the bot's signing secret."""
    web = bot.app.endpoints.web
    assert web is not None
    secret = bot.slack.world.app.signing_secret
    return Sender(web.url, secret, int(bot.clock.now().timestamp()))


@pytest.fixture
def own_harness(tmp_path: Path) -> Iterator[Callable[..., Harness]]:
    """A function that makes a bot of the test's own, which is ended after the test."""
    made: list[Harness] = []

    def make(**options: Any) -> Harness:
        made.append(Harness(tmp_path, **options))
        return made[-1]

    yield make
    for harness in made:
        harness.close()
