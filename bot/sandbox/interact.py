"""What a person does with buttons and modals: the payloads that follow, and what came of them.

Works on the world only; it is called by actors and by the page's HTTP interface, on any thread.
"""

from __future__ import annotations

import copy
from typing import Any

from bot.sandbox import events, inputs, messages, views
from bot.sandbox.apps import App
from bot.sandbox.events import VERIFICATION, team_domain
from bot.sandbox.records import Delivery, View
from bot.sandbox.state import World
from bot.sandbox.text import elements_of
from bot.sandbox.wire import Json

WARNINGS = {
    "timeout": "This app did not answer in time. Please try again.",
    "no_socket": "This app is not reachable right now. Please try again later.",
    "unreachable": "This app is not reachable right now. Please try again later.",
    "http_error": "This app answered with an error. Please try again later.",
}


def find_element(
    blocks: list[Json], action_id: str, block_id: str | None, value: str | None, user: str
) -> tuple[Json, Json]:
    """The (block, element) that fits and that this user can see; ValueError when there is none."""
    for block in blocks:
        if block_id is not None and block.get("block_id") != block_id:
            continue
        for element in elements_of(block):
            shown_to = element.get("visible_to_user_ids")
            if element.get("action_id") != action_id or (shown_to is not None and user not in shown_to):
                continue
            if value is None or element.get("value") == value or "value" not in element:
                return block, element
    there = [(b.get("block_id"), e.get("action_id"), e.get("value")) for b in blocks for e in elements_of(b)]
    raise ValueError(f"no element {action_id!r} (block {block_id!r}, value {value!r}); there are {there}")


def _options(element: Json) -> list[Json]:
    options = list(element.get("options", []))
    for group in element.get("option_groups", []):
        options += group["options"]
    return options


def _option(element: Json, value: str) -> Json:
    for option in _options(element):
        if option["value"] == value:
            return dict(option)
    raise ValueError(f"{element['action_id']} has no option {value!r}")


def selection(element: Json, value: str | None, selected: Any) -> Json:
    """What an action object says besides ids: a button's text and value, a menu's selected option and so on."""
    kind = element["type"]
    if kind == "feedback_buttons":
        buttons = [element[key] for key in ("positive_button", "negative_button")]
        chosen = next((button for button in buttons if button["value"] == value), None)
        if chosen is None:
            raise ValueError(f"feedback_buttons has no value {value!r}")
        return {"value": chosen["value"], "text": chosen["text"]}
    if kind in ("button", "icon_button", "workflow_button"):
        return {key: element[key] for key in ("text", "value", "style", "url") if key in element}
    if kind == "overflow":
        return {"selected_option": _option(element, str(selected if selected is not None else value))}
    key = inputs.FIELDS[kind][0]
    chosen = value if selected is None else selected
    if key == "selected_option" and isinstance(chosen, str):
        return {key: _option(element, chosen)}
    if key == "selected_options" and isinstance(chosen, list):
        return {key: [_option(element, c) if isinstance(c, str) else c for c in chosen]}
    return {key: chosen}


def _action(world: World, block: Json, element: Json, chosen: Json) -> Json:
    action = {"action_id": element["action_id"], "block_id": block["block_id"], "type": element["type"]}
    return action | copy.deepcopy(chosen) | {"action_ts": world.next_ts()}


def _base(world: World, app: App, kind: str, user: str) -> Json:
    person = world.by_id[user]
    who = {"id": user, "username": person.name, "name": person.name, "team_id": person.team_id}
    return {
        "type": kind,
        "user": who,
        "api_app_id": app.id,
        "token": VERIFICATION,
        "team": team_domain(world, person.team_id),
        "enterprise": None,
        "is_enterprise_install": False,
    }


def deliver(world: World, app: App, payload: Json, *, accepts: bool = False) -> Delivery:
    """Send the app any interactive payload, also one that no real client would send."""
    delivery = Delivery("interactive", payload, app, accepts_response_payload=accepts)
    world.send(delivery)
    return delivery


def click(
    world: World,
    user: str,
    shown: Json,
    channel_id: str,
    found: tuple[Json, Json],
    chosen: Json,
) -> Delivery:
    """Use an element of a message as `shown` (a message as the person sees it); returns the delivery at once."""
    block, element = found
    channel = world.channels[channel_id]
    app = world.apps[shown["app_id"]]
    shown = copy.deepcopy(shown)
    ephemeral = bool(shown.pop("is_ephemeral", False))
    container = {"type": "message", "message_ts": shown["ts"], "channel_id": channel_id, "is_ephemeral": ephemeral}
    if "thread_ts" in shown:
        container["thread_ts"] = shown["thread_ts"]
    payload = _base(world, app, "block_actions", user) | {
        "container": container,
        "trigger_id": views.new_trigger(world, app, user),
        "channel": {"id": channel_id, "name": channel.label},
        "state": {"values": inputs.states(shown.get("blocks", []))},
        "response_url": world.new_response_url(app, channel_id, shown["ts"], user),
        "actions": [_action(world, block, element, chosen)],
    }
    if not ephemeral:
        payload["message"] = shown
    return deliver(world, app, payload)


def click_view(world: World, view: View, found: tuple[Json, Json], chosen: Json) -> Delivery:
    """Use an element of a modal; its new state is kept, as the client keeps it."""
    block, element = found
    if element["type"] in inputs.FIELDS:
        state = {"type": element["type"], **chosen}
        view.values.setdefault(block["block_id"], {})[element["action_id"]] = state
    app = world.apps[view.app_id]
    payload = _base(world, app, "block_actions", view.user) | {
        "container": {"type": "view", "view_id": view.id},
        "trigger_id": views.new_trigger(world, app, view.user, view.id),
        "view": views.with_state(view),
        "actions": [_action(world, block, element, chosen)],
    }
    return deliver(world, app, payload)


def top(world: World, user: str, view_id: str | None = None) -> View:
    """The view on top of that user's screen (which must be `view_id` if given); ValueError when it is not there."""
    stack = world.stacks.get(user, [])
    if not stack or (view_id is not None and stack[-1].id != view_id):
        raise ValueError("no such view is open on top")
    return stack[-1]


def typed_in(view: View, state: Json) -> None:
    """Keep what the page says is typed into a view, as far as the view has such inputs."""
    for block_id, actions in state.items():
        for action_id, value in actions.items():
            if action_id in view.values.get(block_id, {}):
                view.values = inputs.merge(view.values, {block_id: {action_id: value}})


def submit(world: World, user: str, view_id: str | None, changes: Json) -> Json:
    """Submit the top view with `changes` typed into it, and wait for what comes of it (at most some seconds)."""
    with world.lock:
        view = top(world, user, view_id)
        if not view.body["submit"]:
            raise ValueError("this view has no submit button")
        view.values = inputs.merge(view.values, changes)
        if found := inputs.problems(view.body["blocks"], view.values):
            return {"outcome": "errors", "errors": found}
        app = world.apps[view.app_id]
        payload = _base(world, app, "view_submission", user) | {
            "trigger_id": views.new_trigger(world, app, user, view.id),
            "view": views.with_state(view),
            "response_urls": [],
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


def close_view(world: World, user: str, view_id: str | None, *, everything: bool = False) -> None:
    """Close the top view, or all of them with the × of the window; view_closed goes to those who asked for it."""
    with world.lock:
        view = top(world, user, view_id)
        everything = everything or bool(view.body["clear_on_close"])
        closed = views.close(world, user, view.id, everything=everything)
        root = closed[-1]
        for gone in [root] if everything else closed:
            if gone.body["notify_on_close"]:
                extra = {"view": views.with_state(gone), "is_cleared": everything}
                app = world.apps[gone.app_id]
                deliver(world, app, _base(world, app, "view_closed", user) | extra)


def stop_agent(world: World, user: str, channel_id: str, thread_ts: str) -> Delivery | None:
    """Press Slack's Stop in a thread: streams there end, and the app hears agent_session_stopped."""
    with world.lock:
        channel = world.channels[channel_id]
        stopped: list[str] = []
        status = world.statuses.pop((channel_id, thread_ts), None)
        app_id = status.app_id if status else ""
        for message in world.messages.get(channel_id, {}).values():
            if message.root == thread_ts and message.stream and message.stream.state == "in_progress":
                message.stream.state = "stopped_by_user"
                stopped.append(message.ts)
                app_id = message.app_id
        world.touch(messages.audience(channel))
        event = {
            "type": "agent_session_stopped",
            "channel": channel_id,
            "thread_ts": thread_ts,
            "user": user,
            "streaming_message_ts": stopped,
        }
        if not app_id and channel.kind == "im":
            app_id = world.app_of_dm(channel).id
        return events.emit(world, world.apps.get(app_id, world.app), event, channel)
