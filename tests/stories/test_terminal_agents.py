"""Sub-agents in a chat at the terminal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bot.cli.bot_connection import send_command
from bot.demo.model_server import Turn
from bot.terminal.terminal_messages import ChatEventKind, CommandKind, OperatorCommand
from storage.backend import socket_path
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.follower import followed
from tests.stories.harness import Harness
from tests.stories.operator_steps import ANA, POLICY, with_tools
from tests.stories.sub_agents import AGENTS, errand, writes

C = CallStatus


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Harness, FakeTools]]:
    """A bot whose operator is Ana, with sub-agents."""
    fakes = FakeTools()
    folder = with_tools(tmp_path_factory.mktemp("t"))
    tools, policy = [*fakes.tools, *AGENTS], POLICY.replace("ask_person", "note_desk")
    harness = Harness(folder, tools, policy, COUNTERSIGN_OPERATOR=ANA)
    yield harness, fakes
    harness.close()


def test_the_chat_shows_the_calls_of_a_sub_agent(harness: Harness, fakes: FakeTools) -> None:
    """What it proposes and what came of it, but not its answer."""
    harness.planner.script(
        Turn(calls=[errand("write it down")]),
        writes("asked at the terminal"),
        Turn(text="Nobody reads this."),
        Turn(text="It is written."),
    )
    path = socket_path(harness.app.core.store.path)
    run = send_command(path, OperatorCommand(CommandKind.SAY, "", "have it written")).run
    with followed(harness, run) as chat:
        waiting = chat.call(C.PENDING)
        assert waiting.effect == "Write “asked at the terminal”"
        assert waiting.chain == ("🤖 The agent asked Note desk: “write it down”",)
        assert chat.call(C.ENTRUSTED).effect == "write it down"
        cleo = harness.person("cleo")
        card = harness.card(cleo.dm_channel, None, "cleo")
        cleo.click(cleo.dm_channel, card["ts"], "approve")
        answer = chat.wait(ChatEventKind.ANSWER, "It is written.")
        assert "✅ Done: Write “asked at the terminal”." in answer.text
    texts = [
        each.text for each in chat.told if each.kind in (ChatEventKind.WORDS, ChatEventKind.ANSWER)
    ]
    assert not [each for each in texts if "Nobody" in each]
    assert fakes.did("note", "asked at the terminal") == 1
