"""The bot is killed at every stage and started again: nothing is lost and nothing runs twice."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.demo.model_server import Turn
from storage.models import Call
from storage.states import CallStatus
from tests.local_slack import build_local_slack
from tests.model_stand_in.planner import StrictPlanner
from tests.stories.harness import SUPPORT
from tests.stories.messages import action_ids, is_card, words
from tests.stories.process import BotProcess


@contextmanager
def running_bot(folder: Path) -> Iterator[BotProcess]:
    with build_local_slack() as slack, StrictPlanner() as planner:
        bot = BotProcess(folder, slack, planner)
        bot.start()
        yield bot
        bot.kill()


@pytest.fixture(scope="module")
def shared_bot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BotProcess]:
    """One bot for all these stories: each kills it and starts it again."""
    with running_bot(tmp_path_factory.mktemp("crash")) as bot:
        yield bot


@pytest.fixture
def bot(
    shared_bot: BotProcess, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[BotProcess]:
    """The bot as the last story left it, running; a fresh one if a story has failed."""
    if request.session.testsfailed:
        with running_bot(tmp_path) as fresh:
            yield fresh
    else:
        shared_bot.looked_at_from_here()
        yield shared_bot


def having(
    bot: BotProcess, thread: str, found: Callable[[dict[str, Any]], bool]
) -> list[dict[str, Any]]:
    return [
        m for m in bot.slack.person("ana").messages(SUPPORT, thread) if m.get("bot_id") and found(m)
    ]


def card(bot: BotProcess, thread: str, button: str = "approve") -> dict[str, Any]:
    [found] = bot.slack.wait(lambda: having(bot, thread, lambda m: button in action_ids(m)))
    return found


ANSWER = "It is done now, exactly once."


def hold_bot_at(bot: BotProcess, stage: str) -> Any:
    """Make the bot stop at `stage`, so that it can be killed there."""
    faults = bot.slack.faults

    def is_a_card(args: dict[str, Any]) -> bool:
        return "approve" in str(args.get("blocks"))

    def is_answer(args: dict[str, Any]) -> bool:
        return ANSWER in str(args)

    match stage:
        case "first model turn":
            return bot.planner.hold_next_request()
        case "card posted, answer lost":
            return faults.hold("chat.postMessage", when="after", match=is_a_card)
        case "card about to be posted":
            return faults.hold("chat.postMessage", when="before", match=is_a_card)
        case "answer posted, answer lost":
            return faults.hold("chat.postMessage", when="after", match=is_answer)
        case "answer about to be posted":
            return faults.hold("chat.postMessage", when="before", match=is_answer)
    raise ValueError(stage)


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param("first model turn", marks=pytest.mark.long),
        pytest.param("card posted, answer lost", marks=pytest.mark.long),
        pytest.param("card about to be posted", marks=pytest.mark.long),
        pytest.param("answer posted, answer lost", marks=pytest.mark.long),
        "answer about to be posted",
        "click being decided",
        pytest.param("second model turn", marks=pytest.mark.long),
    ],
)
def test_a_request_survives_a_crash_at_any_stage(bot: BotProcess, stage: str) -> None:
    """There is one card, one effect and one answer."""
    bot.planner.script(Turn(calls=[("once", {"text": "it"})]), Turn(text=ANSWER))
    before = len(bot.slack.deliveries)  # the killed bot may never acknowledge some of these
    late = stage in ("click being decided", "second model turn")
    held = None if late else hold_bot_at(bot, stage)
    thread = bot.slack.person("ben").say(SUPPORT, "@bot do it")
    if late or stage.startswith("answer"):
        shown = card(bot, thread)
        if late:
            decided = stage == "second model turn"
            held = (
                bot.planner.hold_next_request()
                if decided
                else bot.slack.faults.hold("usergroups.list")
            )
            bot.slack.set_group("shop-leads", ["ana"])  # so that the group is looked up again
            bot.slack.wait(lambda: all(d.outcome == "acked" for d in bot.slack.deliveries[before:]))
        click = bot.slack.person("ana").click(SUPPORT, shown["ts"], "approve")
        bot.slack.wait(lambda: click.outcome == "acked")  # what was not stored may be lost
    assert held is not None
    assert held.arrived.wait(30)
    bot.kill()
    held.release()
    bot.start()
    if not (late or stage.startswith("answer")):
        bot.slack.person("ana").click(SUPPORT, card(bot, thread)["ts"], "approve")

    bot.slack.wait(lambda: having(bot, thread, lambda m: ANSWER in words(m)))
    bot.slack.wait(lambda: not having(bot, thread, lambda m: "approve" in action_ids(m)))
    assert len(bot.effects()) == 1
    assert len(having(bot, thread, lambda m: ANSWER in words(m))) == 1
    assert len(having(bot, thread, is_card)) == 1
    assert [call.status for call in bot.rows(Call)] == [CallStatus.SUCCEEDED]


@pytest.mark.parametrize("tool", ["once", "again"])
def test_killed_between_the_effect_and_its_result(bot: BotProcess, tool: str) -> None:
    """The call becomes UNKNOWN and does not run again by itself; an idempotent tool runs again with
    the same key.
    """
    os.mkfifo(bot.folder / "hang")
    bot.planner.script(Turn(calls=[(tool, {"text": "it"})]), Turn(text=ANSWER))
    thread = bot.slack.person("ben").say(SUPPORT, "@bot do it")
    bot.slack.person("ana").click(SUPPORT, card(bot, thread)["ts"], "approve")
    bot.slack.wait(lambda: having(bot, thread, lambda m: "Running" in words(m)))
    with (bot.folder / "hang").open("w"):  # opens once the tool reads, so its effect is written
        bot.kill()
    (bot.folder / "hang").unlink()
    bot.start()
    if tool == "once":
        asking = card(bot, thread, "resolve_done")
        assert [call.status for call in bot.rows(Call)] == [CallStatus.UNKNOWN]
        bot.slack.person("ana").click(SUPPORT, asking["ts"], "resolve_done")
    bot.slack.wait(lambda: having(bot, thread, lambda m: ANSWER in words(m)))
    effects = bot.effects()
    assert len(effects) == (1 if tool == "once" else 2)
    assert len(set(effects)) == 1, "the idempotency key changed"
    assert [call.status for call in bot.rows(Call)] == [CallStatus.SUCCEEDED]


def test_a_stream_left_open_is_closed_first(bot: BotProcess) -> None:
    """The bot is killed while it streams an answer: the stream is closed, and the answer stands
    once.
    """
    text = "A long answer that is worth streaming. " * 20 + ANSWER
    bot.planner.chunk_delay = 0.02
    before = len(bot.slack.requests)
    held = bot.planner.hold_next_request(after_events=60)
    bot.planner.script(Turn(text=text))
    thread = bot.slack.person("ben").say(SUPPORT, "@bot tell me")
    assert held.arrived.wait(30)

    def asked(method: str) -> bool:
        return any(each.method == method for each in bot.slack.requests[before:])

    bot.slack.wait(lambda: asked("chat.startStream"))
    bot.kill()
    held.release()
    bot.planner.chunk_delay = 0.0
    bot.start()
    bot.slack.wait(lambda: having(bot, thread, lambda m: ANSWER in words(m)))
    bot.slack.wait(
        lambda: not having(bot, thread, lambda m: bool(m.get("streaming_state") == "in_progress"))
    )
    with_text = having(bot, thread, lambda m: "worth streaming" in words(m))
    assert len(with_text) == 1
    assert asked("chat.stopStream")


def test_a_step_left_open_is_closed_first(bot: BotProcess) -> None:
    """The bot is killed while it shows a look-up: that is closed, looked up again, and answered
    once.
    """
    os.mkfifo(bot.folder / "hang")
    bot.planner.script(Turn(calls=[("look", {"text": "the night"})]), Turn(text=ANSWER))
    thread = bot.slack.person("ben").say(SUPPORT, "@bot look")

    def is_open(message: dict[str, Any]) -> bool:
        return bool(message.get("streaming_state") == "in_progress")

    bot.slack.wait(lambda: having(bot, thread, is_open))
    with (bot.folder / "hang").open("w"):  # opens once the tool reads
        bot.kill()
    (bot.folder / "hang").unlink()
    bot.start()
    bot.slack.wait(lambda: having(bot, thread, lambda m: ANSWER in words(m)))
    bot.slack.wait(lambda: not having(bot, thread, is_open))
    assert len(having(bot, thread, lambda m: ANSWER in words(m))) == 1
    assert len(bot.effects()) == 2
