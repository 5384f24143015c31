"""In which order deliveries are dealt with where several processes have stored them."""

from __future__ import annotations

from storage.inbox import CLICKS
from storage.models import Delivery

Place = tuple[str, str, str]  # somebody, or "" for all; a channel; a thread in it


def places(delivery: Delivery) -> tuple[Place, Place]:
    """Return where it keeps its order: behind what its person did in that thread before; and, a
    click or a dialog, behind those there that another process has stored and may have died with.
    """
    where = (delivery.channel, delivery.thread_ts)
    place = (delivery.user, *where)
    is_click = delivery.kind in CLICKS and delivery.channel
    return place, ("", *where) if is_click else place
