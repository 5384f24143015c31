"""block_suggestion: what an app offers in an external select while somebody types.

The options that were offered are kept per person and element, since only they may be chosen.
"""

from __future__ import annotations

import copy
from typing import Any

from slack_sandbox.blockkit.objects import OPTION, OPTION_GROUP, array
from slack_sandbox.blockkit.text import completed
from slack_sandbox.client import payloads
from slack_sandbox.client.places import Place
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.workspace import choices
from slack_sandbox.workspace.records import Delivery
from slack_sandbox.workspace.state import World

MIN_QUERY_CHARS = 3  # if the element does not set it
NOT_LOADED_ERROR = "The options could not be loaded."
_CHECKS = {"options": array(OPTION, 100, low=0), "option_groups": array(OPTION_GROUP, 100, low=0)}


def ask(world: World, place: Place, action_id: str, block_id: str | None, query: str) -> Json:
    """Return what the menu shows for that query, as the app or Slack offers it.

    It is {"options": […]} or {"option_groups": […]}; {"message": a sentence} if the app gave no
    answer that Slack accepts. Waits for the app, so the world's lock must not be held. ValueError
    for an element that has nothing to look up, or too short a query.
    """
    with world.lock:
        block, element = place.find(action_id, block_id)
        if element["type"] not in choices.EXTERNAL:
            return {"options": choices.listed(world, place.user, element, query)}
        least = element.get("min_query_length", MIN_QUERY_CHARS)
        if len(query) < least:
            raise ValueError(f"Type at least {least} characters.")
        payload = payloads.base(world, place.app, "block_suggestion", place.user) | place.about(
            world
        )
        payload |= {"action_id": action_id, "block_id": block["block_id"], "value": query}
        result: Json = {}
        key = (place.user, place.key, block["block_id"], action_id)
        delivery = Delivery("interactive", payload, place.app, accepts_response_payload=True)
        delivery.on_settled = lambda done: result.update(_taken(world, key, done))
        world.send(delivery)
    delivery.wait(world.ack_seconds + 5)
    return result


def _taken(world: World, key: tuple[str, str, str, str], delivery: Delivery) -> Json:
    if not delivery.ok:
        return {"message": NOT_LOADED_ERROR}
    found, problems = _read(delivery.ack)
    if problems:
        return {"message": f"{NOT_LOADED_ERROR} ({'; '.join(problems)})"}
    known = world.offered.setdefault(key, [])
    known += [option for option in choices.flat(found) if option not in known]
    return found


def _read(ack: Any) -> tuple[Json, list[str]]:
    """Return the options in an acknowledgement, and what Slack would not accept about them."""
    given = {
        name: ack[name] for name in _CHECKS if isinstance(ack, dict) and ack.get(name) is not None
    }
    if len(given) != 1:
        return {}, ["the app must answer with either options or option_groups"]
    ((name, value),) = given.items()
    problems = list(_CHECKS[name](value, f"/{name}"))
    return (
        {}
        if problems
        else {name: completed([{"block_id": "-", name: copy.deepcopy(value)}])[0][name]}
    ), problems
