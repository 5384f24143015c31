"""What a person does with buttons and modals: the payloads that follow, and what came of them.

Works on the world only; it is called by actors and by the page's HTTP interface, on any thread.
"""

from __future__ import annotations

import copy

from slack_sandbox.blockkit import inputs
from slack_sandbox.blockkit.text import elements_of, every_block
from slack_sandbox.client import payloads, places
from slack_sandbox.client.places import Place
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.web_api import views
from slack_sandbox.workspace import choices
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.records import Delivery, View
from slack_sandbox.workspace.state import World

WARNINGS = {
    "timeout": "This app did not answer in time. Please try again.",
    "no_socket": "This app is not reachable right now. Please try again later.",
    "unreachable": "This app is not reachable right now. Please try again later.",
    "http_error": "This app answered with an error. Please try again later.",
}


def _action(world: World, block: Json, element: Json, chosen: Json) -> Json:
    action = {
        "action_id": element["action_id"],
        "block_id": block["block_id"],
        "type": element["type"],
    }
    return action | copy.deepcopy(chosen) | {"action_ts": world.next_ts()}


def use(world: World, place: Place, found: tuple[Json, Json], chosen: Json) -> Delivery | None:
    """Use an element and store its new state; `chosen`: see `choices.selection`.

    Returns the delivery without waiting; None if the app is not notified: in an input block without
    dispatch_action.
    """
    block, element = found
    if element["type"] in inputs.FIELDS:
        place.values[block["block_id"]][element["action_id"]] = {
            "type": element["type"],
            **copy.deepcopy(chosen),
        }
        world.touch([place.user])
    if not inputs.dispatches(block):
        return None
    view_id = place.view.id if place.view else ""
    payload = payloads.base(world, place.app, "block_actions", place.user) | place.about(world)
    payload["trigger_id"] = world.new_trigger(place.app, place.user, view_id, place.channel_id)
    payload["actions"] = [_action(world, block, element, chosen)]
    if place.shown is not None:
        payload["response_url"] = world.new_response_url(
            place.app, place.channel_id, place.shown["ts"], place.user
        )
    return payloads.deliver(world, place.app, payload)


def typed_in(world: World, place: Place, state: Json, *, strictly: bool = True) -> None:
    """Store element states that the person entered, by block and action; nothing is sent.

    ValueError for a state that cannot be entered, or (`strictly`) for an input that is not there.
    """
    for block_id, actions in state.items():
        for action_id, given in actions.items():
            if not strictly and action_id not in place.values.get(block_id, {}):
                continue
            element = place.input(block_id, action_id)
            key = inputs.FIELDS[element["type"]][0]
            if key not in given:
                raise ValueError(
                    f"the state of {element['type']} {block_id}/{action_id} needs {key!r}"
                )
            offered = world.offered.get((place.user, place.key, block_id, action_id), [])
            value = choices.checked(world, place.user, element, given.get(key), offered)
            place.values[block_id][action_id] = {"type": element["type"], key: value}


def top(world: World, user: str, view_id: str | None = None) -> View:
    """Return the view on top of that user's screen; ValueError if it is another than asked for."""
    stack = world.stacks.get(user, [])
    if not stack or (view_id is not None and stack[-1].id != view_id):
        raise ValueError("no such view is open on top")
    return stack[-1]


def submit(world: World, user: str, view_id: str | None, changes: Json) -> Json:
    """Submit the top view with `changes` typed into it, and wait for what comes of it."""
    with world.lock:
        view = top(world, user, view_id)
        if not view.body["submit"]:
            raise ValueError("this view has no submit button")
        typed_in(world, places.of_view(world, view), changes)
        if found := inputs.problems(view.body["blocks"], view.values):
            return {"outcome": "errors", "errors": found}
        app = views.app_of(world, view)
        payload = payloads.base(world, app, "view_submission", user) | {
            "trigger_id": world.new_trigger(app, user, view.id, view.channel_id),
            "view": view.with_state(),
            "response_urls": _response_urls(world, app, view),
        }
        result: Json = {}
        delivery = Delivery("interactive", payload, app, accepts_response_payload=True)

        def settle(done: Delivery) -> None:
            if done.ok:
                result.update(views.respond(world, view, done.ack))
            else:
                result.update(outcome="timeout", message=WARNINGS[done.outcome])

        delivery.on_settled = settle
        world.send(delivery)
    delivery.wait(world.ack_seconds + 5)
    return result


def _response_urls(world: World, app: App, view: View) -> list[Json]:
    """An address for each conversation that was chosen in a select with response_url_enabled."""
    made: list[Json] = []
    for block in every_block(view.body["blocks"]):
        for element in elements_of(block):
            state = view.values.get(block["block_id"], {}).get(element.get("action_id"), {})
            channel = state.get("selected_conversation") or state.get("selected_channel")
            if element.get("response_url_enabled") and channel:
                url = world.new_response_url(app, channel, "", view.user)
                ids = {"block_id": block["block_id"], "action_id": element["action_id"]}
                made.append(ids | {"channel_id": channel, "response_url": url})
    return made


def close_view(world: World, user: str, view_id: str | None, *, everything: bool = False) -> None:
    """Close the top view, or all of them with the × of the window.

    An app gets view_closed if its view asked for that.
    """
    with world.lock:
        view = top(world, user, view_id)
        everything = everything or bool(view.body["clear_on_close"])
        closed = views.close(world, user, view.id, everything=everything)
        root = closed[-1]
        for gone in [root] if everything else closed:
            if gone.body["notify_on_close"]:
                extra = {"view": gone.with_state(), "is_cleared": everything}
                app = views.app_of(world, gone)
                payloads.deliver(world, app, payloads.base(world, app, "view_closed", user) | extra)
