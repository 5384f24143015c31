"""What a person does through the HTTP interface: each POST, its body and its answer.

Every function gets the world, the acting person and a checked body, and raises ValueError for what
they cannot do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from slack_sandbox.client import commands, interact, suggestions
from slack_sandbox.http.fields import CHOSEN, ELEMENT, MESSAGE, PLACE, Fields
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.web_api import oauth, orgs
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.records import Delivery
from slack_sandbox.workspace.state import World

if TYPE_CHECKING:  # only for type annotations
    from slack_sandbox.client.actor import Actor, Where

    Action = Callable[[World, Actor, Json], Awaitable[Json]]


def _app(world: World, app_id: str | None) -> App:
    if app_id is None:
        return world.app
    if app_id not in world.apps:
        raise ValueError(f"there is no app {app_id}")
    return world.apps[app_id]


def _named(world: World, body: Json) -> App | None:
    return _app(world, body["app"]) if "app" in body else None


def _where(world: World, body: Json) -> Where:
    """The place that the body names: a message, a modal or a Home tab."""
    given = [name for name in ("channel", "view_id", "home") if name in body]
    if len(given) != 1 or ("channel" in body) != ("ts" in body):
        raise ValueError("a place is channel and ts, or view_id, or home")
    if "channel" in body:
        return body["channel"], body["ts"]
    return str(body["view_id"]) if "view_id" in body else _app(world, body["home"])


def _values(state: Json | None) -> Json:
    """Return element states by block and action, from `state` as the page sends it.

    It may have "values" around it.
    """
    given = state or {}
    values: Json = given["values"] if set(given) == {"values"} else given
    blocks = list(values.values()) if isinstance(values, dict) else [None]
    if not all(
        isinstance(b, dict) and all(isinstance(each, dict) for each in b.values()) for b in blocks
    ):
        raise ValueError("state must be {block_id: {action_id: element state}}")
    return values


async def _click_in(world: World, actor: Actor, where: Where, body: Json) -> Json:
    ids = (body["action_id"], body.get("block_id"))
    state = _values(body.get("state"))
    return await _outcome(
        world, actor.click_in(where, *ids, body.get("value"), body.get("selected_option"), state)
    )


async def _outcome(world: World, delivery: Delivery) -> Json:
    """Wait for the delivery; return {} if the app acknowledged it, else Slack's warning."""
    await asyncio.to_thread(delivery.wait, world.ack_seconds + 7)
    return {} if delivery.ok else {"ok": False, "message": interact.WARNINGS[delivery.outcome]}


# actions of a member in the workspace


async def _say(_world: World, actor: Actor, body: Json) -> Json:
    return {"ts": actor.say(body["channel"], body["text"], body.get("thread_ts"))}


async def _open(world: World, actor: Actor, body: Json) -> Json:
    actor.read(body["channel"])
    channel = world.channel(body["channel"])
    if channel.kind == "im":
        actor.open_dm(world.app_of_dm(channel))
    return {}


async def _react(_world: World, actor: Actor, body: Json) -> Json:
    change = actor.unreact if body.get("remove") else actor.react
    change(body["channel"], body["ts"], body["name"])
    return {}


def _plainly(act: Callable[[Actor], Callable[..., None]]) -> Action:
    """Return an action that passes the body's fields to `act` and has an empty answer."""

    async def action(_world: World, actor: Actor, body: Json) -> Json:
        act(actor)(**body)
        return {}

    return action


# actions of a member with apps


async def _click(world: World, actor: Actor, body: Json) -> Json:
    return await _click_in(world, actor, (body["channel"], body["ts"]), body)


async def _view_click(world: World, actor: Actor, body: Json) -> Json:
    return await _click_in(world, actor, body.get("view_id"), body)


async def _view_submit(world: World, actor: Actor, body: Json) -> Json:
    values = _values(body.get("state"))
    result = await asyncio.to_thread(interact.submit, world, actor.id, body.get("view_id"), values)
    return {"ok": "message" not in result, **result}


async def _view_close(world: World, actor: Actor, body: Json) -> Json:
    interact.close_view(
        world, actor.id, body.get("view_id"), everything=body.get("everything", False)
    )
    return {}


async def _home_open(world: World, actor: Actor, body: Json) -> Json:
    app, tab = _app(world, body.get("app")), body.get("tab", "home")
    if tab not in ("home", "messages"):
        raise ValueError("tab is home or messages")
    if tab == "home":
        return {"view": actor.open_home(app)}
    actor.open_dm(app)
    return {"view": None}


async def _home_click(world: World, actor: Actor, body: Json) -> Json:
    return await _click_in(world, actor, _app(world, body.get("app")), body)


async def _suggest(world: World, actor: Actor, body: Json) -> Json:
    with world.lock:
        place = actor.place(_where(world, body))
    ids = (body["action_id"], body.get("block_id"))
    found = await asyncio.to_thread(suggestions.ask, world, place, *ids, body.get("query", ""))
    return {"ok": "message" not in found, **found}


async def _type(world: World, actor: Actor, body: Json) -> Json:
    where, enter = _where(world, body), body.get("enter", False)
    sent = actor.type(body["action_id"], body["text"], body.get("block_id"), where, enter)
    outcomes = [await _outcome(world, delivery) for delivery in sent]
    return {"sent": len(sent)} | next((outcome for outcome in outcomes if outcome), {})


async def _command(world: World, actor: Actor, body: Json) -> Json:
    sent = actor.command(body["channel"], body["text"], body.get("thread_ts"))
    if isinstance(sent, str):
        return {"ok": False, "message": sent}
    await _outcome(world, sent)
    return {} if sent.ok else {"ok": False, "message": commands.failure(sent)}


async def _shortcut(world: World, actor: Actor, body: Json) -> Json:
    return await _outcome(
        world, actor.shortcut(body["callback_id"], _named(world, body), body.get("channel"))
    )


async def _message_shortcut(world: World, actor: Actor, body: Json) -> Json:
    place = (body["channel"], body["ts"], body["callback_id"])
    return await _outcome(world, actor.message_shortcut(*place, _named(world, body)))


async def _uninstall(world: World, actor: Actor, body: Json) -> Json:
    app = _app(world, body.get("app"))
    if not actor.person.is_admin or not app.installed:
        raise ValueError(f"{actor.name} cannot remove {app.name}")
    with world.lock:
        if app.is_org_wide:
            orgs.grant(world, app, [world.team], revoke=True)
        else:
            oauth.remove(world, app)
        world.touch()
    return {}


async def _stop(_world: World, actor: Actor, body: Json) -> Json:
    # an event, so nothing waits for its acknowledgement
    actor.stop_agent(body["channel"], body["thread_ts"])
    return {}


async def _rename(_world: World, actor: Actor, body: Json) -> Json:
    actor.rename_session(body["channel"], body["thread_ts"], body["title"])
    return {}


_CHANNEL: Fields = {"channel": str}
_VIEW: Fields = {"view_id?": str}
_APP: Fields = {"app?": str}
ACTIONS: Mapping[str, tuple[Fields, Action]] = {
    "say": ({**_CHANNEL, "text": str, "thread_ts?": str}, _say),
    "open": (_CHANNEL, _open),
    "read": (_CHANNEL, _plainly(lambda actor: actor.read)),
    "join": (_CHANNEL, _plainly(lambda actor: actor.join)),
    "leave": (_CHANNEL, _plainly(lambda actor: actor.leave)),
    "edit": ({**MESSAGE, "text": str}, _plainly(lambda actor: actor.edit)),
    "delete": (MESSAGE, _plainly(lambda actor: actor.delete)),
    "react": ({**MESSAGE, "name": str, "remove?": bool}, _react),
    "status": (
        {"emoji?": str, "text?": str, "until?": int},
        _plainly(lambda actor: actor.set_status),
    ),
    "do_not_disturb": (
        {"until?": int, "hours?": str},
        _plainly(lambda actor: actor.set_do_not_disturb),
    ),
    "click": ({**MESSAGE, **ELEMENT, **CHOSEN}, _click),
    "view/click": ({**_VIEW, **ELEMENT, **CHOSEN}, _view_click),
    "view/submit": ({**_VIEW, "state?": dict}, _view_submit),
    "view/close": ({**_VIEW, "everything?": bool}, _view_close),
    "home/open": ({**_APP, "tab?": str}, _home_open),
    "home/click": ({**_APP, **ELEMENT, **CHOSEN}, _home_click),
    "suggest": ({**PLACE, **ELEMENT, "query?": str}, _suggest),
    "type": ({**PLACE, **ELEMENT, "text": str, "enter?": bool}, _type),
    "command": ({**_CHANNEL, "text": str, "thread_ts?": str}, _command),
    "shortcut": ({**_APP, "callback_id": str, "channel?": str}, _shortcut),
    "message_shortcut": ({**_APP, **MESSAGE, "callback_id": str}, _message_shortcut),
    "uninstall": (_APP, _uninstall),
    "rename": ({**_CHANNEL, "thread_ts": str, "title": str}, _rename),
    "stop": ({**_CHANNEL, "thread_ts": str}, _stop),
}
