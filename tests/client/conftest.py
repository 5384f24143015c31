"""One bot that serves the API for all programs of these tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from bot.config.connection_settings import Transport
from countersign import Countersign
from tests.client.shop import Shop, key_for
from tests.stories.fakes import FakeTools
from tests.stories.harness import Harness


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Harness, str]]:
    """The bot, and a key for all actions whose name begins with deploy, and a few others."""
    folder = tmp_path_factory.mktemp("asked")
    harness = Harness(folder, FakeTools().tools, transport=Transport.HTTP)
    yield harness, key_for(harness, "deployer", "deploy*,claude_*,note,ask_person")
    harness.close()


@pytest.fixture
def shop(served: tuple[Harness, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """People, and a program with that key in its environment, with nothing going on."""
    harness, key = served
    web = harness.app.endpoints.web
    assert web is not None
    monkeypatch.setenv("COUNTERSIGN_URL", web.url)
    monkeypatch.setenv("COUNTERSIGN_API_KEY", key)
    with Shop(harness, Countersign()) as found:
        yield found
    harness.reset()


@pytest.fixture
def ending_hangups() -> Iterator[None]:
    """SIGHUP ends the processes that a test starts, also where the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
