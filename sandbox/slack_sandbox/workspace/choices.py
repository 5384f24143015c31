"""What may be chosen in an element: its own options, the app's suggestions, and Slack's lists.

It changes nothing and sends nothing. Called with the world's lock held.
"""

from __future__ import annotations

import copy
from typing import Any

from slack_sandbox.blockkit.elements import element as element_check
from slack_sandbox.blockkit.inputs import FIELDS
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.workspace.people import Channel
from slack_sandbox.workspace.state import World

EXTERNAL = ("external_select", "multi_external_select")
# word in a filter's `include` -> Channel.kind
_KINDS = {"im": "im", "mpim": "mpim", "private": "group", "public": "channel"}
_PLAIN_BUTTONS = ("button", "icon_button", "workflow_button")


def option(text: str, value: str) -> Json:
    """An option object."""
    return {"text": {"type": "plain_text", "text": text, "emoji": True}, "value": value}


def flat(element: Json) -> list[Json]:
    """Return the options of a menu or suggestion, also those in groups, and the initial ones."""
    found = list(element.get("options") or [])
    for group in element.get("option_groups") or []:
        found += group["options"]
    initial = [
        *element.get("initial_options", []),
        *([element["initial_option"]] if "initial_option" in element else []),
    ]
    return found + [each for each in initial if each not in found]


def listed(world: World, user: str, element: Json, query: str = "") -> list[Json]:
    """Return the people or conversations that Slack's client offers that user id, as options.

    `query` (any case) must be part of the name. ValueError for an element that lists neither.
    """
    kind = str(element["type"])
    if kind.endswith("users_select"):
        names = [(p.real_name, p.id) for p in world.people.values() if not p.deleted]
        names += [(app.name, app.bot_user) for app in world.known_apps]
    elif kind.endswith("channels_select"):
        public = {"include": ["public"]}
        names = [(c.name, c.id) for c in world.channels.values() if _fits(world, user, c, public)]
    elif kind.endswith("conversations_select"):
        wanted = element.get("filter", {})
        names = [
            (_name(world, c), c.id)
            for c in world.channels.values()
            if _fits(world, user, c, wanted)
        ]
    else:
        raise ValueError(f"{kind} lists neither people nor conversations")
    return [option(name, value) for name, value in names if query.lower() in name.lower()]


def _name(world: World, channel: Channel) -> str:
    return world.app_of_dm(channel).name if channel.kind == "im" else channel.name


def _fits(world: World, user: str, channel: Channel, wanted: Json) -> bool:
    if channel.is_archived or not sees(world, user, channel):
        return False
    if wanted.get("exclude_external_shared_channels") and channel.is_ext_shared:
        return False
    # every DM in the sandbox is with an app
    if wanted.get("exclude_bot_users") and channel.kind == "im":
        return False
    return channel.kind in [_KINDS[word] for word in wanted.get("include", _KINDS)]


def sees(world: World, user: str, channel: Channel) -> bool:
    """Return whether that person could open the channel: as a member, or public and no guest."""
    person = world.by_id[user]
    return user in channel.members or (
        channel.kind == "channel" and not person.is_restricted and world.is_member(person)
    )


def current(world: World, user: str, element: Json, channel_id: str) -> Json | None:
    """Return the state of a conversations select that starts with the current one, else None."""
    if not element.get("default_to_current_conversation") or not channel_id:
        return None
    if not _fits(world, user, world.channels[channel_id], element.get("filter", {})):
        return None
    key, _, nothing = FIELDS[element["type"]]
    return {"type": element["type"], key: [channel_id] if nothing == [] else channel_id}


# choosing


def selection(
    world: World, user: str, element: Json, value: str | None, selected: Any, offered: list[Json]
) -> Json:
    """Return what an action object says besides ids: a value, selected options and so on.

    `value` is a button's value or the text of an input, `selected` what was chosen: an option, its
    value, an id, or a list of these; `offered` are the options an app suggested to this person.
    ValueError for what cannot be chosen.
    """
    kind = element["type"]
    if kind == "feedback_buttons":
        halves = [element[key] for key in ("positive_button", "negative_button")]
        chosen = next((half for half in halves if half["value"] == value), None)
        if chosen is None:
            raise ValueError(f"feedback_buttons has no value {value!r}")
        return {"value": chosen["value"], "text": chosen["text"]}
    if kind in _PLAIN_BUTTONS:
        return {key: element[key] for key in ("text", "value", "style", "url") if key in element}
    wanted = value if selected is None else selected
    if kind == "overflow":
        return {"selected_option": _pick(element, flat(element), wanted)}
    return {FIELDS[kind][0]: checked(world, user, element, wanted, offered)}


def checked(world: World, user: str, element: Json, wanted: Any, offered: list[Json]) -> Any:
    """Return an input's value as its state keeps it; ValueError for what cannot be entered.

    None or [] when it was emptied.
    """
    kind = element["type"]
    key, initial, nothing = FIELDS[kind]
    if wanted in (None, "", []) and key != "value":
        return copy.copy(nothing)
    if isinstance(nothing, list):
        most = element.get("max_selected_items")
        if not isinstance(wanted, list) or (most and len(wanted) > most):
            raise ValueError(
                f"{element['action_id']} takes a list" + (f" of at most {most}" if most else "")
            )
    if key.startswith("selected_option"):
        known = [*flat(element), *offered]
        return (
            [_pick(element, known, w) for w in wanted]
            if nothing == []
            else _pick(element, known, wanted)
        )
    if kind.endswith("_select"):
        ids = [each["value"] for each in listed(world, user, element)]
        for each in wanted if nothing == [] else [wanted]:
            if each not in ids:
                raise ValueError(f"{element['action_id']} does not offer {each!r} to this person")
        return wanted
    if key == "value":
        if wanted is not None and not isinstance(wanted, str):
            raise ValueError(f"{element['action_id']} takes a text")
        return wanted
    if kind != "file_input" and (
        found := list(element_check(kind)({"type": kind, "action_id": "a", initial: wanted}, ""))
    ):
        raise ValueError(f"{element['action_id']}: {found[0]}")
    return wanted


def _pick(element: Json, known: list[Json], wanted: Any) -> Json:
    value = wanted.get("value") if isinstance(wanted, dict) else wanted
    for each in known:
        if each["value"] == value:
            return copy.deepcopy(each)
    raise ValueError(f"{element['action_id']} has no option {value!r}")
