"""What looking people and channels up costs: from a message to its card where a whole channel may
decide, and a decision while another one's look-up hangs; Slack's documented rate limits hold.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from bench.figures import Figure, Setup, of_rounds
from bench.live import Live, Story
from slack_sandbox.workspace.people import BOT_USER, Channel

MEMBERS, CHANNELS = (20, 400, 5_000), 5_000
PLACE = "C0APPROVE"
POLICY = '[defaults]\napprovers = ["channel"]\npost_to = "#approvals"\ndeadline = "4h"\n'


def crowded(setup: Setup, members: int, channels: int, number: int) -> Live:
    """A workspace where so many people are in every channel that matters, among so many others."""
    live = Live(setup.new(f"lookups-{members}-{number}"), members, policy=POLICY)
    everybody = [*live.slack.world.by_id, BOT_USER]
    others = (Channel(f"C0OTHER{n:05}", f"other-{n}") for n in range(channels))
    place = Channel(PLACE, "approvals", members=everybody)
    with live.slack.world.lock:
        live.slack.world.channels |= {each.id: each for each in (*others, place)}
    return live


def to_card(live: Live) -> tuple[Story, dict[str, Any], float]:
    """One request, its card and the seconds between them."""
    began = time.monotonic()
    story = live.ask()

    def look() -> dict[str, Any] | None:
        cards = live.slack.person("p0").messages(PLACE)
        return next((m for m in cards if f"“{story.text}”" in str(m) and "approve" in str(m)), None)

    card = live.wait(look)
    story.channel = PLACE
    return story, card, time.monotonic() - began


def beside_another(live: Live) -> float:
    """Milliseconds from a click to its effect while Slack does not say who clicked before."""
    (first, first_card, _), (second, second_card, _) = to_card(live), to_card(live)
    hold = live.slack.faults.hold("users.info", person="p18")
    first.click(first_card, "p18")
    if not hold.arrived.wait(10):
        raise TimeoutError("nobody was looked up")
    second.click(second_card, "p19")
    time.sleep(1)
    hold.release()
    started: float = live.tell("report")["starts"][second.text]
    return (started - second.clicked) * 1000


def measure(setup: Setup) -> Iterator[Figure]:
    """Each time in a life that knows nobody yet."""
    rounds, channels = (1, 50) if setup.quick else (3, CHANNELS)
    for members in MEMBERS[:1] if setup.quick else MEMBERS:
        took, calls, beside = list[float](), list[float](), list[float]()
        for number in range(rounds):
            with crowded(setup, members, channels, number) as live:
                live.start()
                live.slack.rates.enabled = True
                before = len(live.slack.requests)
                took.append(to_card(live)[2])
                calls.append(sum(_reads(each.method) for each in live.slack.requests[before:]))
                beside.append(beside_another(live))
        where = f"{members:,} members, {channels:,} channels"
        name = f"lookups.{members}"
        yield of_rounds(name, f"message to its card, {where}", took, "s", 3)
        yield of_rounds(
            f"{name}.calls", "… look-ups until then", [float(n) for n in calls], "count"
        )
        words = "… click to effect beside a look-up that hangs"
        yield of_rounds(f"{name}.beside", words, beside, "ms", 500)


def _reads(method: str) -> bool:
    return method.startswith(("users.", "usergroups.", "conversations."))
