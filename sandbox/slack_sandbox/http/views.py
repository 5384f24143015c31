"""What the HTTP interface shows: a person's workspace as they see it, and the traffic.

It changes nothing, apart from making the DMs that everybody has. Called with the world's lock held.
"""

from __future__ import annotations

import copy
import re
import time
from typing import Any

from slack_sandbox.client import commands, shortcuts
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.web_api import agents, marks, views
from slack_sandbox.workspace import choices, messages
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.people import Channel, Person
from slack_sandbox.workspace.records import ApiCall, Delivery
from slack_sandbox.workspace.state import World

MAX_ROWS_PER_ANSWER = 200  # deliveries or calls
REDACTED = "…"
_SECRET_FIELDS = {
    "token",
    "access_token",
    "refresh_token",
    "client_secret",
    "code",
    "signing_secret",
}
_SECRET_TEXT = re.compile(r"\b(xox[a-z]|xapp)-[\w.-]+|(?<=ticket=)[\w-]+")


# people and what they see


def people(world: World) -> list[Json]:
    """Return everybody, then the apps' bots."""
    humans = [
        {
            "id": p.id,
            "name": p.name,
            "real_name": p.real_name,
            "team_id": p.team_id,
            "team": world.teams[p.team_id][0],
            "is_restricted": p.is_restricted,
            "deleted": p.deleted,
            "is_bot": False,
            "tz": p.tz,
            "tz_offset": p.tz_offset,
            # from another workspace, known through a shared channel
            **({} if world.people.get(p.name) is p else {"elsewhere": True}),
        }
        for p in world.by_id.values()
    ]
    of_bots: Json = {"deleted": False, "is_restricted": False, "is_bot": True}
    of_bots |= {"tz": "America/Los_Angeles", "tz_offset": -28800}
    apps = {each.bot_user: each for each in world.known_apps}
    for channel in world.channels.values():
        for each in world.sharing(channel)[1:]:  # bots of the other workspaces write in it too
            apps = {a.bot_user: a for a in each.known_apps} | apps
    bots = [
        {"id": a.bot_user, "name": a.name, "real_name": a.name, "team_id": a.team, **of_bots}
        | {"team": world.teams[a.team][0]}
        for a in apps.values()
    ]
    return [*humans, *bots]


def seen_by(world: World, me: Person) -> Json:
    """Return all that one person has on their screen."""
    if not me.deleted:
        for app in world.known_apps:
            world.dm(me.id, app)
    mine = [c for c in world.channels.values() if me.id in c.members]
    ids = {c.id for c in mine}
    joinable = [
        c
        for c in world.channels.values()
        if c.id not in ids and not c.is_archived and c.kind == "channel"
    ]
    everyone = {p["id"]: p for p in people(world)}
    return {
        "me": everyone[me.id],
        "team": world.team,
        "workspaces": [
            {"id": each.team, "name": each.teams[each.team][0]} for each in world.worlds.values()
        ],
        "people": list(everyone.values()),
        "groups": [
            {"id": g.id, "handle": g.handle, "users": g.users} for g in world.groups.values()
        ],
        "channels": [_channel(world, c, me) for c in mine],
        "joinable": [_channel(world, c, me) for c in joinable if choices.sees(world, me.id, c)],
        "messages": {
            c.id: [messages.seen(world, m) for m in world.visible(me.id, c)] for c in mine
        },
        "statuses": [
            {"channel": s.channel, "thread_ts": s.thread_ts, "status": s.status, "app": s.app_id}
            for s in agents.current_statuses(world)
            if s.channel in ids
        ],
        "prompts": {c.id: agents.prompts_of(world, c) for c in mine if c.kind == "im"},
        "views": [v.with_state() for v in world.stacks.get(me.id, [])],
        "home": {app_id: _home(world, me, app_id) for app_id in world.apps},
        "apps": [_app(world, me, app) for app in world.known_apps],
        "notifications": world.notes.get(me.id, []),
        "bot": {"id": world.app.bot_user, "name": world.app.name},
        "guide": world.guide(world) if world.guide else None,
        "now": world.now(),
        "seq": world.seq,
    }


def _channel(world: World, channel: Channel, me: Person) -> Json:
    name = world.app_of_dm(channel).name if channel.kind == "im" else channel.name
    return {
        "id": channel.id,
        "name": name,
        "is_im": channel.kind == "im",
        "is_mpim": channel.kind == "mpim",
        "is_private": channel.kind != "channel",
        "is_ext_shared": channel.is_ext_shared,
        "is_archived": channel.is_archived,
        "topic": channel.topic,
        "members": list(channel.members),
        "unread": world.unread(me.id, channel),
        **marks.channel_extras(world, channel),
    }


def _home(world: World, me: Person, app_id: str) -> Json | None:
    view = world.homes.get((me.id, app_id))
    return view.with_state() if view else None


def _app(world: World, me: Person, app: App) -> Json:
    home = app.app_home
    dm = next(
        (
            c.id
            for c in world.channels.values()
            if c.kind == "im" and {me.id, app.bot_user} == set(c.members)
        ),
        None,
    )
    # the page can remove an app only if other workspaces remain to try it in
    removable = me.is_admin and app.installed and len(world.worlds) > 1
    own = [command for owner, command in commands.available(world, me.id).values() if owner is app]
    return {
        "id": app.id,
        "name": app.name,
        "bot_user": app.bot_user,
        "bot_id": app.bot_id,
        "home_enabled": bool(home.get("home_tab_enabled")),
        "messages_enabled": bool(home.get("messages_tab_enabled", True)),
        "dm": dm,
        "commands": [
            {key: c.get(key, "") for key in ("command", "description", "usage_hint")} for c in own
        ],
        "shortcuts": [
            {key: s.get(key, "") for key in ("type", "callback_id", "name", "description")}
            for owner, s in shortcuts.available(world, me.id)
            if owner is app
        ],
        **({"removable": True} if removable else {}),
    }


# the inspector


def message(world: World, channel_id: str, ts: str) -> Json | None:
    """Return the JSON of any message, also of one that only one person sees, or None."""
    found = world.messages.get(channel_id, {}).get(ts)
    return messages.show(world, found, world.app.bot_user, metadata=True) if found else None


def view(world: World, view_id: str) -> Json | None:
    """The raw JSON of an open modal or a Home tab; None when there is none."""
    return next((each.with_state() for each in views.every(world) if each.id == view_id), None)


def deliveries(world: World, about: tuple[str, str], after: int) -> Json:
    """Deliveries (of that app and workspace, "": of all) with numbers over `after`, oldest first.

    "after" in the answer is the number to ask with next: it stays before the first pending one.
    """
    numbered = [
        (n, d)
        for n, d in enumerate(world.deliveries[after:], after + 1)
        if about[0] in ("", d.app.id) and about[1] in ("", d.app.team)
    ][:MAX_ROWS_PER_ANSWER]
    pending = [n - 1 for n, d in numbered if d.outcome == "pending"]
    last = numbered[-1][0] if len(numbered) == MAX_ROWS_PER_ANSWER else len(world.deliveries)
    offset = time.time() - time.monotonic()
    return {
        "deliveries": [_delivery(n, d, offset) for n, d in numbered],
        "after": min([*pending, max(last, after)]),
    }


def _delivery(number: int, delivery: Delivery, offset: float) -> Json:
    sent, acked = delivery.sent_at, delivery.acked_at
    payload = delivery.payload
    return {
        "number": number,
        "app": delivery.app.id,
        "team": delivery.app.team,
        "kind": delivery.kind,
        "type": delivery.event.get("type") or payload.get("command") or payload.get("type"),
        "outcome": delivery.outcome,
        "attempts": delivery.attempts,
        "envelope_ids": list(delivery.envelope_ids),
        "sent_at": None if sent is None else sent + offset,
        "acked_at": None if acked is None else acked + offset,
        "ms": None if sent is None or acked is None else round((acked - sent) * 1000, 3),
        "payload": copy.deepcopy(payload),
        "ack": copy.deepcopy(delivery.ack),
    }


def calls(world: World, about: tuple[str, str], after: int) -> Json:
    """Calls of the Web API (of that app and workspace, "": of all) with numbers over `after`.

    Oldest first; secrets are hidden.
    """
    numbered = [
        (n, c)
        for n, c in enumerate(world.requests[after:], after + 1)
        if about[0] in ("", c.app_id) and about[1] in ("", c.team)
    ][:MAX_ROWS_PER_ANSWER]
    last = numbered[-1][0] if len(numbered) == MAX_ROWS_PER_ANSWER else len(world.requests)
    return {"calls": [_call(n, c) for n, c in numbered], "after": max(last, after)}


def _call(number: int, call: ApiCall) -> Json:
    return {
        "number": number,
        "app": call.app_id or None,
        "team": call.team or None,
        "method": call.method,
        "args": hidden(call.args),
        "status": call.status,
        "answer": hidden(call.response),
        "at": call.at.timestamp(),
        "ms": round(call.ms, 3),
    }


def hidden(value: Any) -> Any:
    """A copy of the JSON without tokens and secrets."""
    if isinstance(value, dict):
        return {
            key: REDACTED if key in _SECRET_FIELDS else hidden(each) for key, each in value.items()
        }
    if isinstance(value, list):
        return [hidden(each) for each in value]
    return _SECRET_TEXT.sub(REDACTED, value) if isinstance(value, str) else value
