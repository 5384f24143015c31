"""The bot keeps to Slack's rate limit for a channel by itself."""

from __future__ import annotations

from collections.abc import Callable

from bot.demo.model_server import Turn
from storage.models import Message
from storage.states import MESSAGE_OPEN_STATUSES, MessageKind, MessageStatus, RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import GENERAL, Harness
from tests.stories.messages import action_ids
from tests.stories.steps import all_sent

REQUESTS = 12


def test_many_requests_in_one_channel_stay_within_the_rate_limit(
    own_harness: Callable[..., Harness],
) -> None:
    """Cards come in the order of asking; the answer about a decided card goes ahead of them."""
    harness = own_harness(FakeTools().tools)
    harness.slack.rates.enabled = True
    before = len(harness.slack.requests)
    ben = harness.person("ben")
    try:
        threads = []
        for number in range(REQUESTS):
            harness.planner.script(Turn(calls=[("note", {"text": f"in turn {number}"})]))
            threads.append(ben.say(GENERAL, f"@bot number {number}"))
            harness.slack.wait(lambda: harness.calls_in(threads[-1]))
        first = harness.card(GENERAL, threads[0])
        harness.planner.script(Turn(text="The first is done."))
        harness.person("ana").click(GENERAL, first["ts"], "approve")
        # settle() does not wait for the model, whose answer has to be there before the clock moves
        harness.slack.wait(lambda: harness.run_in(threads[0]).status is RunStatus.COMPLETED)
        # none on a machine that takes longer for a request than the limit allows
        waiting = harness.all(
            Message, Message.kind == MessageKind.CARD, Message.status == MessageStatus.PENDING
        )
        for _ in range(60):
            harness.settle()
            if not harness.all(Message, Message.status.in_(MESSAGE_OPEN_STATUSES)):
                break
            harness.clock.advance(1)
        all_sent(harness)
    finally:
        harness.slack.rates.enabled = False
    posts = [r for r in harness.slack.requests[before:] if r.method == "chat.postMessage"]
    assert sum(each.status == 429 for each in posts) <= 1
    cards = harness.all(Message, Message.kind == MessageKind.CARD, Message.channel == GENERAL)
    times = [each.ts for each in cards if each.thread_ts in threads]
    assert len(times) == REQUESTS
    assert times == sorted(times)
    said = harness.said(GENERAL, threads[0], "The first is done.")
    assert said["ts"] < times[-1] or not waiting
    assert all(
        any("approve" in action_ids(m) for m in harness.thread(GENERAL, each))
        for each in threads[1:]
    )
