"""Measures the cost of looking up people and channels.

It measures from a message to its card where a whole channel may decide, and a decision while
another person's look-up hangs, with Slack's documented rate limits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from bench.figures import Figure, Setup, build_figure
from bench.live import Live, Story
from slack_sandbox.workspace.people import BOT_USER, Channel

MEMBERS, CHANNELS = (20, 400, 5_000), 5_000
PLACE = "C0APPROVE"
POLICY = '[defaults]\napprovers = ["channel"]\npost_to = "#approvals"\ndeadline = "4h"\n'


def create_crowded_workspace(setup: Setup, members: int, channels: int, number: int) -> Live:
    """Create a workspace with so many members in the approvals channel and so many channels."""
    live = Live(setup.make_folder(f"lookups-{members}-{number}"), members, policy=POLICY)
    everybody = [*live.slack.world.by_id, BOT_USER]
    others = (Channel(f"C0OTHER{n:05}", f"other-{n}") for n in range(channels))
    place = Channel(PLACE, "approvals", members=everybody)
    with live.slack.world.lock:
        live.slack.world.channels |= {each.id: each for each in (*others, place)}
    return live


def measure_card(live: Live) -> tuple[Story, dict[str, Any], float]:
    """Return a new request, its card and the seconds between them."""
    began = time.monotonic()
    story = live.ask()

    def look() -> dict[str, Any] | None:
        cards = live.slack.person("p0").messages(PLACE)
        return next((m for m in cards if f"“{story.text}”" in str(m) and "approve" in str(m)), None)

    card = live.wait(look)
    story.channel = PLACE
    return story, card, time.monotonic() - began


def measure_beside_another(live: Live) -> float:
    """Return a click's milliseconds to its effect while another click's look-up hangs."""
    (first, first_card, _), (second, second_card, _) = measure_card(live), measure_card(live)
    hold = live.slack.faults.hold("users.info", person="p18")
    first.click(first_card, "p18")
    if not hold.arrived.wait(10):
        raise TimeoutError("nobody was looked up")
    second.click(second_card, "p19")
    time.sleep(1)
    hold.release()
    started: float = live.send_command("report")["starts"][second.text]
    return (started - second.clicked) * 1000


def measure(setup: Setup) -> Iterator[Figure]:
    """Measure each time with a new bot, which knows nobody yet."""
    rounds, channels = (1, 50) if setup.quick else (3, CHANNELS)
    for members in MEMBERS[:1] if setup.quick else MEMBERS:
        took, calls, beside = list[float](), list[float](), list[float]()
        for number in range(rounds):
            with create_crowded_workspace(setup, members, channels, number) as live:
                live.start()
                live.slack.rates.enabled = True
                before = len(live.slack.requests)
                took.append(measure_card(live)[2])
                calls.append(sum(_reads(each.method) for each in live.slack.requests[before:]))
                beside.append(measure_beside_another(live))
        where = f"{members:,} members, {channels:,} channels"
        name = f"lookups.{members}"
        yield build_figure(name, f"message to its card, {where}", took, "s", 3)
        yield build_figure(
            f"{name}.calls", "… look-ups until then", [float(n) for n in calls], "count"
        )
        words = "… click to effect beside a look-up that hangs"
        yield build_figure(f"{name}.beside", words, beside, "ms", 500)


def _reads(method: str) -> bool:
    return method.startswith(("users.", "usergroups.", "conversations."))
