"""The card quotes the request, so that approvers see whether the call fits it."""

from __future__ import annotations

from typing import Any

from bot.demo.model_server import Turn
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import all_sent, now_at


def quoted(card: dict[str, Any]) -> list[str]:
    """Return the card's quotations; each is plain text."""
    block = next(b for b in card["blocks"] if b["block_id"].startswith("x:"))
    by, *found = block["elements"]
    # without and with a mention
    assert by["text"] in ("💬 Asked by Ben Okafor", "💬 Asked by <@UBEN00001>")
    assert {each["type"] for each in found} == {"plain_text"}
    return [each["text"] for each in found]


def test_the_card_quotes_the_request(harness: Harness) -> None:
    """It quotes the first message and the newest one, cut to a length, without formatting."""
    harness.planner.script(Turn(calls=[("note", {"text": "cancel 1043"})]))
    words = "@bot change the <address> of *order 1043*\nplease"
    thread = harness.person("ben").say(SUPPORT, words)
    card = harness.card(SUPPORT, thread)
    assert quoted(card) == ["“change the <address> of *order 1043* please”"]
    harness.planner.script(
        Turn(calls=[("replace_waiting_plan", {})]), Turn(calls=[("note", {"text": "another"})])
    )
    harness.person("ben").say(SUPPORT, f"@bot no, {'really ' * 99}", thread)
    harness.slack.wait(lambda: len(harness.calls_in(thread)) == 2)
    all_sent(harness)
    first, last = quoted(now_at(harness, SUPPORT, harness.card(SUPPORT, thread)["ts"]))
    assert first.startswith("“change the <address>")
    assert last.startswith("“no, really really")
    assert len(last) < 250
