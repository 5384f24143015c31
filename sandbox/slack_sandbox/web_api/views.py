"""views.*: modals and App Home, the stack of at most three modals, triggers and hashes.

Called with the world's lock held. What a submission's acknowledgement does to the stack is here as
well.
"""

from __future__ import annotations

import copy
import json
import secrets
import time
from typing import Any

from slack_sandbox.blockkit import blocks as checker
from slack_sandbox.blockkit import inputs
from slack_sandbox.blockkit.text import completed, every_block
from slack_sandbox.spec.slack_error import Json, SlackError, invalid
from slack_sandbox.web_api import orgs
from slack_sandbox.web_api.arguments import Args
from slack_sandbox.workspace import choices
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.records import Trigger, View
from slack_sandbox.workspace.state import World

MAX_STACKED_VIEWS = 3
MAX_VIEW_BYTES = 250_000


def _trigger(world: World, args: Args) -> Trigger:
    trigger = world.triggers.get(args.required("trigger_id"))
    app = args.app
    if trigger is None or trigger.app_id != app.id or app.team not in trigger.teams:
        raise SlackError("invalid_trigger_id")
    if trigger.used:
        raise SlackError("exchanged_trigger_id")
    if time.monotonic() - trigger.born > world.ack_seconds:
        raise SlackError("expired_trigger_id")
    return trigger


def check(app: App, view: Any, kind: str = "modal") -> Json:
    """Return the view if Slack would take it as a modal or home, as asked; else SlackError."""
    if problems := checker.check_view(view):
        raise invalid(problems)
    if view["type"] != kind:
        raise invalid([f"must be a {kind} [json-pointer:/view/type]"])
    if problems := checker.check_leave(view["blocks"], app.scopes, app.manifest, "/view/blocks"):
        raise invalid(problems)
    if len(json.dumps(view)) > MAX_VIEW_BYTES:
        raise SlackError("view_too_large")
    checked: Json = view
    return checked


def _given(args: Args, kind: str = "modal") -> Json:
    if not args.has("view"):
        raise invalid(["missing required field: view"])
    return check(args.app, args.json("view"), kind)


def every(world: World, app: App | None = None) -> list[View]:
    """Return all open modals and Home views (of that app)."""
    there: list[View] = []
    for each in world.worlds.values() if app else [world]:
        there += [view for stack in each.stacks.values() for view in stack]
        there += each.homes.values()
    return [view for view in there if app is None or app_of(world, view) is app]


def app_of(world: World, view: View) -> App:
    """The app whose view it is, as it is installed in the workspace that opened it."""
    return world.worlds[view.body["app_installed_team_id"]].apps[view.app_id]


def _before(world: World, view: View) -> World:
    """Return the workspace where the viewer has it open; by a shared channel, not the app's."""
    for each in world.worlds.values():
        stack = each.stacks.get(view.user, [])
        if view in stack or view is each.homes.get((view.user, view.app_id)):
            return each
    return world


def _free_external_id(world: World, app: App, view: Json, own: View | None = None) -> None:
    external = view.get("external_id")
    if external and any(
        v is not own and v.body["external_id"] == external for v in every(world, app)
    ):
        raise SlackError("duplicate_external_id")


def _hash(world: World) -> str:
    return f"{int(world.now())}.{secrets.token_urlsafe(6)[:8]}"


def _plain(text: Json | None) -> Json | None:
    return {"emoji": True, **text} if text else None


def _body(world: World, app: App, user: str, view: Json, view_id: str) -> Json:
    person = world.by_id.get(user)
    return {
        "id": view_id,
        "team_id": world.acts_from(person) if person else world.team,
        "type": view["type"],
        "blocks": completed(copy.deepcopy(view["blocks"])),
        "private_metadata": view.get("private_metadata", ""),
        "callback_id": view.get("callback_id", ""),
        "state": {"values": {}},
        "hash": _hash(world),
        # "View Title" is what Slack says for a Home tab
        "title": _plain(view.get("title", {"type": "plain_text", "text": "View Title"})),
        "clear_on_close": bool(view.get("clear_on_close", False)),
        "notify_on_close": bool(view.get("notify_on_close", False)),
        "close": _plain(view.get("close")),
        "submit": _plain(view.get("submit")),
        "previous_view_id": None,
        "root_view_id": view_id,
        "app_id": app.id,
        "external_id": view.get("external_id", ""),
        "app_installed_team_id": app.team,
        "bot_id": app.bot_id,
    }


def new_view(world: World, app: App, user: str, view: Json, channel_id: str = "") -> View:
    """Return a new view, its inputs as they start for a person who looks at that conversation."""
    body = _body(world, app, user, view, world.new_id("V"))
    shown = View(user, body, {}, app.id, channel_id)
    shown.values = _states(world, shown)
    return shown


def _states(world: World, view: View) -> Json:
    def here(element: Json) -> Json | None:
        return choices.current(world, view.user, element, view.channel_id)

    return inputs.states(view.body["blocks"], view.values, here)


def _add(world: World, app: App, user: str, view: Json, stack: list[View], channel_id: str) -> View:
    shown = new_view(world, app, user, view, channel_id)
    if stack:
        shown.body |= {"previous_view_id": stack[-1].id, "root_view_id": stack[0].id}
    stack.append(shown)
    world.stacks[user] = stack
    world.touch([user])
    return shown


def replace(world: World, shown: View, view: Json) -> None:
    """Put another content and hash into a view.

    Typed text stays in inputs whose block, action and type are the same.
    """
    old, world = shown.body, _before(world, shown)
    body = _body(world, app_of(world, shown), shown.user, view, shown.id)
    body |= {"previous_view_id": old["previous_view_id"], "root_view_id": old["root_view_id"]}
    shown.body = body
    shown.values = _states(world, shown)
    world.touch([shown.user])


def open_view(world: World, args: Args) -> Json:
    """views.open: a new stack in place of any other."""
    view = _given(args)
    trigger = _trigger(world, args)
    _free_external_id(world, args.app, view)
    trigger.used = True
    there = world.worlds[trigger.team]
    added = _add(there, args.app, trigger.user, view, [], trigger.channel_id)
    return {"view": copy.deepcopy(added.body)}


def push(world: World, args: Args) -> Json:
    """views.push: on top of the stack that the trigger came from."""
    view = _given(args)
    trigger = _trigger(world, args)
    _free_external_id(world, args.app, view)
    there = world.worlds[trigger.team]
    stack = there.stacks.get(trigger.user, [])
    if not any(v.id == trigger.view_id for v in stack):
        raise SlackError("not_found")
    if len(stack) >= MAX_STACKED_VIEWS:
        raise SlackError("push_limit_reached")
    trigger.used = True
    added = _add(there, args.app, trigger.user, view, stack, trigger.channel_id)
    return {"view": copy.deepcopy(added.body)}


def update(world: World, args: Args) -> Json:
    """views.update by view_id or external_id, of a modal or Home tab; refuses a stale `hash`."""
    view_id, external_id = args.text("view_id"), args.text("external_id")
    if not view_id and not external_id:
        raise invalid(["missing required field: view_id"])
    key, wanted = ("id", view_id) if view_id else ("external_id", external_id)
    shown = next((v for v in every(world, args.app) if v.body[key] == wanted), None)
    if shown is None:
        raise SlackError("not_found")
    view = _given(args, shown.body["type"])
    if args.has("hash") and args.text("hash") != shown.body["hash"]:
        raise SlackError("hash_conflict")
    _free_external_id(world, args.app, view, shown)
    replace(world, shown, view)
    return {"view": copy.deepcopy(shown.body)}


def publish(world: World, args: Args) -> Json:
    """views.publish: what the Home tab of the app shows to one person from now on.

    A stale `hash` is refused.
    """
    view, user = _given(args, "home"), args.required("user_id")
    if not args.app.app_home.get("home_tab_enabled"):
        raise SlackError("not_enabled")
    if user not in world.by_id:
        raise invalid(["must be the id of a member [json-pointer:/user_id]"])
    shown = world.homes.get((user, args.app.id))
    if args.has("hash") and (shown is None or args.text("hash") != shown.body["hash"]):
        raise SlackError("hash_conflict")
    _free_external_id(world, args.app, view, shown)
    if shown is None:
        shown = new_view(world, args.app, user, view)
        for each in {world, *orgs.granted(world, args.app)}:  # an org has one Home tab
            each.homes[user, args.app.id] = shown
    else:
        replace(world, shown, view)
    world.touch([user])
    return {"view": copy.deepcopy(shown.body)}


def close(world: World, user: str, view_id: str, *, everything: bool) -> list[View]:
    """Take the top view (or the whole stack) off the user's screen.

    Returns what was closed, top first.
    """
    stack = world.stacks.get(user, [])
    closed = list(reversed(stack)) if everything else [v for v in stack[-1:] if v.id == view_id]
    world.stacks[user] = [v for v in stack if v not in closed]
    world.touch([user])
    return closed


def respond(world: World, view: View, answer: Json | None) -> Json:
    """Do what the acknowledgement of a submission says.

    Returns the outcome for the person who submitted.
    """
    stack, app = world.stacks.get(view.user, []), app_of(world, view)
    if not answer:
        close(world, view.user, view.id, everything=False)
        return {"outcome": "closed"}
    action = answer.get("response_action")
    if action == "clear":
        close(world, view.user, view.id, everything=True)
        return {"outcome": "closed"}
    try:
        if action == "errors":
            return _errors(view, answer.get("errors"))
        if action == "update":
            _free_external_id(world, app, check(app, answer.get("view")), view)
            replace(world, view, answer["view"])
            return {"outcome": "updated"}
        if action == "push":
            _free_external_id(world, app, check(app, answer.get("view")))
            if len(stack) >= MAX_STACKED_VIEWS:
                raise SlackError("push_limit_reached")
            _add(world, app, view.user, answer["view"], stack, view.channel_id)
            return {"outcome": "pushed"}
    except SlackError as error:
        return {
            "outcome": "invalid",
            "message": f"We had some trouble connecting. ({error.body()})",
        }
    return {
        "outcome": "invalid",
        "message": f"We had some trouble connecting. (response_action {action!r})",
    }


def _errors(view: View, errors: Any) -> Json:
    fields = {b["block_id"] for b in every_block(view.body["blocks"]) if b["type"] == "input"}
    if not isinstance(errors, dict) or not errors or not set(errors) <= fields:
        raise invalid([f"errors must name input blocks of the view, not {errors!r}"])
    if not all(isinstance(text, str) and text for text in errors.values()):
        raise invalid(["errors must be texts"])
    return {"outcome": "errors", "errors": dict(errors)}


METHODS = {
    "views.open": open_view,
    "views.push": push,
    "views.update": update,
    "views.publish": publish,
}
