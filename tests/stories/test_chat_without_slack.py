"""`countersign chat` while Slack accepts no message, and the limit of open chats."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from bot.cli.bot_connection import BotUnreachableError, open_chat_event_socket, send_command
from bot.demo.model_server import Turn
from bot.http.local_api import MAX_OPEN_CHATS
from bot.terminal.terminal_messages import ChatEventKind, CommandKind, OperatorCommand
from storage.backend import socket_path
from storage.states import RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.follower import followed
from tests.stories.harness import Harness
from tests.stories.operator_steps import ANA, POLICY
from tests.stories.steps import all_sent


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Harness, FakeTools]]:
    """A bot whose operator is Ana."""
    fakes = FakeTools()
    folder = tmp_path_factory.mktemp("t")
    harness = Harness(folder, fakes.tools, POLICY, COUNTERSIGN_OPERATOR=ANA)
    yield harness, fakes
    harness.close()


def test_a_request_waits_until_slack_has_its_first_message(harness: Harness) -> None:
    """It is stored and can be cancelled, but no model is asked until its message is in Slack."""
    path = socket_path(harness.app.core.store.path)
    harness.slack.faults.status("chat.postMessage", 503, times=50)
    harness.planner.script(Turn(text="Here, at last."))
    asked = [
        send_command(path, OperatorCommand(CommandKind.SAY, "", words))
        for words in ("a first wish", "a second")
    ]
    harness.settle()
    for each in asked:
        found = harness.run_of(each.run)
        assert (each.counted, found.status, found.thread_ts) == (True, RunStatus.READY, "")
    assert harness.planner.requests == []
    more = send_command(path, OperatorCommand(CommandKind.SAY, asked[0].run, "and more"))
    assert (more.counted, "is not in Slack yet" in more.sentence) == (False, True)
    assert send_command(path, OperatorCommand(CommandKind.CANCEL, asked[1].run)).counted
    harness.slack.faults.clear()
    with followed(harness, asked[0].run) as chat:
        all_sent(harness)
        chat.wait(ChatEventKind.ANSWER, "Here, at last.")
    assert harness.run_of(asked[1].run).status is RunStatus.CANCELLED


def test_the_number_of_open_chats_is_limited(harness: Harness) -> None:
    """One that is closed makes room."""
    path = socket_path(harness.app.core.store.path)
    harness.planner.script(Turn(text="Yes."))
    run = send_command(path, OperatorCommand(CommandKind.SAY, "", "who is there?")).run
    with ExitStack() as open_:
        for _ in range(MAX_OPEN_CHATS):
            assert open_.enter_context(open_chat_event_socket(path, run)).recv(1)  # events arrive
        with pytest.raises(BotUnreachableError, match="Too many chats"):
            open_chat_event_socket(path, run)

    def has_room() -> bool:
        try:
            open_chat_event_socket(path, run).close()
        except BotUnreachableError:
            return False
        return True

    harness.slack.wait(has_room)
