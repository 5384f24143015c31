"""The codec of button values, menu choices, block ids and dialog metadata.

Pure, and the only file that writes and reads them. Their forms never change, since people click old
cards. A value that Slack sends back is a claim, not a permission: the call it names and the person
who clicked are looked up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any

from bot.cards.action_names import MENU, Action, Block, Dialog

# The targets of buttons and dialogs. Pure; a payload only claims them, so they are looked up.


@dataclass(frozen=True, slots=True)
class CallTarget:
    """One call, at the revision that was shown."""

    call: str
    revision: int


@dataclass(frozen=True, slots=True)
class CardTarget:
    """All calls that wait on one card, at the card's revision that was shown."""

    plan: str
    revision: int  # of the card: `storage.calls.card_revision`
    card: int  # the message's number in the outbox


@dataclass(frozen=True, slots=True)
class RunTarget:
    """A whole request (a run)."""

    run: str


@dataclass(frozen=True, slots=True)
class Rating:
    """One person's opinion, good or bad, of the answer to a request."""

    run: str
    good: bool


@dataclass(frozen=True, slots=True)
class Setting:
    """The channel that a form is filled in for, and the message that the request is about."""

    channel: str = ""  # "": a direct message with who asks
    quoted: str = ""  # the text of the message that it is about
    link: str = ""  # where that message stands
    asked_in: str = ""  # the channel where it was asked for, if it is made elsewhere


class FormKind(StrEnum):
    """What a form was made from: a tool, or a template of the policy."""

    TOOL = "tool"
    TEMPLATE = "template"  # of the policy: some of its fields are filled in for good


@dataclass(frozen=True, slots=True)
class FormTarget:
    """The form of a tool or a template, and where its request is made."""

    kind: FormKind
    name: str
    setting: Setting = Setting()
    again: str = ""  # the call with whose values it begins; "" for none


@dataclass(frozen=True, slots=True)
class DelegationTarget:
    """One delegation, by which one person decides for another."""

    delegation: str


class HomePart(StrEnum):
    """The part of the Home tab that is shown."""

    ALL = "all"  # the first of everything
    WAITING = "waiting"
    MINE = "mine"


@dataclass(frozen=True, slots=True)
class HomeTarget:
    """One page of the Home tab, for one channel or for all."""

    part: HomePart = HomePart.ALL
    page: int = 0
    channel: str = ""  # only what was asked there; "": anywhere


HOME = HomeTarget()  # what is shown to who opens it


@dataclass(frozen=True, slots=True)
class NoTarget:
    """The target of a button that shows or begins something and names no row."""


Target = (
    CallTarget
    | CardTarget
    | RunTarget
    | Rating
    | Setting
    | FormTarget
    | DelegationTarget
    | HomeTarget
    | NoTarget
)


@dataclass(frozen=True, slots=True)
class Click:
    """An action and its target."""

    action: Action
    target: Target


@dataclass(frozen=True, slots=True)
class DialogSubject:
    """A dialog and its target."""

    dialog: Dialog
    target: Target


@dataclass(frozen=True, slots=True)
class MalformedValue:
    """An id or a value that the bot never issued."""

    why: str  # for the log
    name: Action | Dialog | None = None  # what it claims to be; None for none of ours


OPENS_DIALOG = frozenset(
    {
        Action.REVIEW,
        Action.EDIT,
        Action.REJECT,
        Action.REJECT_ALL,
        Action.SEND_BACK,
        Action.REQUEST,
        Action.PICK,
        Action.ASK_AGAIN,
        Action.ANSWER,
        Action.DELEGATE,
    }
)
# what only shows something to who clicks: answered at once, and not stored
LOOKS = frozenset(
    {
        Action.LOOK_WAITING,
        Action.LOOK_REQUESTS,
        Action.LOOK_HISTORY,
        Action.LOOK_GRANTS,
        Action.LOOK_HELP,
        Action.LOOK_SHOW,
    }
)
TURNS_HOME = frozenset(  # what only has the Home tab show something else; not stored either
    {
        Action.HOME_ALL,
        Action.HOME_WAITING,
        Action.HOME_MINE,
        Action.HOME_BEFORE,
        Action.HOME_NEXT,
        Action.HOME_CHANNEL,
        Action.HOME_ANYWHERE,
    }
)
_ABOUT: Mapping[Action, type[Target]] = {
    **dict.fromkeys(Action, CallTarget),  # but for these
    Action.APPROVE_ALL: CardTarget,
    Action.REJECT_ALL: CardTarget,
    Action.CANCEL_RUN: RunTarget,
    Action.RETRY: RunTarget,
    Action.FEEDBACK: Rating,
    Action.REQUEST: Setting,
    Action.PICK: FormTarget,
    **dict.fromkeys(LOOKS - {Action.LOOK_SHOW}, NoTarget),
    Action.LOOK_SHOW: RunTarget,
    **dict.fromkeys(TURNS_HOME, HomeTarget),
    Action.DELEGATE: NoTarget,
    Action.END_DELEGATION: DelegationTarget,
}
_EITHER = frozenset({Action.REVIEW, Action.REJECT, Action.CANCEL_RUN})
_CHOICES = _EITHER | {Action.ROWS, Action.SEND_BACK, Action.WITHDRAW, Action.ASK_AGAIN}
_BUTTONS = frozenset(Action) - _CHOICES | _EITHER
_GOOD, _BAD = "good", "bad"
_NOTHING = "-"
_CALL, _PLAN = "call", "plan"  # what a rejection is about
_ID = "([A-Za-z0-9_-]{1,64})"
_REVISION = "(0|[1-9][0-9]{0,8})"
_LONG = "(0|[1-9][0-9]{0,17})"
_FORMS: Mapping[type[Target], tuple[str, Callable[..., Target]]] = {
    CallTarget: (f"{_ID}:{_REVISION}", lambda call, at: CallTarget(call, int(at))),
    CardTarget: (
        f"{_ID}:{_LONG}:{_LONG}",
        lambda plan, at, card: CardTarget(plan, int(at), int(card)),
    ),
    RunTarget: (_ID, RunTarget),
    Setting: ("in:([A-Z0-9]{0,40})", Setting),
    FormTarget: (
        f"({'|'.join(FormKind)}):([^\n]{{1,120}})",
        lambda kind, name: FormTarget(FormKind(kind), name),
    ),
    DelegationTarget: (_ID, DelegationTarget),
    HomeTarget: (
        f"({'|'.join(HomePart)}):(0|[1-9][0-9]{{0,2}})(?::([A-Z0-9]{{1,40}}))?",
        lambda part, page, channel: HomeTarget(HomePart(part), int(page), channel or ""),
    ),
    NoTarget: (_NOTHING, NoTarget),
    Rating: (f"({_GOOD}|{_BAD}):{_ID}", lambda word, run: Rating(run, good=word == _GOOD)),
}


def encode(about: Target | Click) -> str:
    """Return the value of a button with this target, or of a menu's choice (a Click)."""
    match about:
        case Click(action, target):
            return f"{action}:{encode(target)}"
        case CallTarget(call, revision):
            return f"{call}:{revision}"
        case CardTarget(plan, revision, card):
            return f"{plan}:{revision}:{card}"
        case RunTarget(run):
            return run
        case Setting(channel):
            return f"in:{channel}"
        case FormTarget(kind, name):
            return f"{kind}:{name}"
        case Rating(run, good):
            return f"{_GOOD if good else _BAD}:{run}"
        case DelegationTarget(delegation):
            return delegation
        case HomeTarget(part, page, channel):
            return f"{part}:{page}:{channel}" if channel else f"{part}:{page}"
        case NoTarget():
            return _NOTHING


def decode(action_id: str, value: str) -> Click | MalformedValue:
    """Return the action and target of a clicked button or chosen option, or MalformedValue."""
    name, rest, allowed = action_id, value, _BUTTONS
    if action_id == MENU:
        name, _, rest = value.partition(":")
        allowed = _CHOICES
    if name not in allowed:
        return MalformedValue(f"unknown action {name[:80]!r}")
    action = Action(name)
    target = _target(_ABOUT[action], rest)
    if target is None:
        return MalformedValue(f"{action} with the odd value {rest[:80]!r}", action)
    return Click(action, target)


def decode_action(action: Mapping[str, Any]) -> Click | MalformedValue:
    """Return the action and target of one element of a payload's `actions`, or MalformedValue."""
    return decode(str(action.get("action_id") or ""), value_of(action))


def value_of(action: Mapping[str, Any]) -> str:
    """Return the value of the clicked button or of the chosen option; "" for none.

    For a channel chosen on the Home tab: the value of the page that shows only that channel.
    """
    if channel := action.get("selected_conversation"):
        shows = _target(HomeTarget, str(action.get("block_id")).partition(":")[2])
        at = replace(shows, page=0, channel=channel) if isinstance(shows, HomeTarget) else None
        return encode(at) if at else ""
    chosen = action.get("selected_option")
    option = chosen if isinstance(chosen, Mapping) else {}
    return str(action.get("value") or option.get("value") or "")


def _target(kind: type[Target], value: str) -> Target | None:
    form, make = _FORMS[kind]
    found = re.fullmatch(form, value)
    return make(*found.groups()) if found else None


def encode_dialog(about: DialogSubject) -> str:
    """Return the private metadata of a dialog; ValueError if the dialog cannot have this target."""
    match about:
        case DialogSubject(Dialog.REVIEW | Dialog.EDIT | Dialog.ANSWER, CallTarget(call, revision)):
            return json.dumps({"call": call, "revision": revision})
        case DialogSubject(Dialog.REJECT, CallTarget() as target):
            return json.dumps({"target": f"{_CALL}:{encode(target)}"})
        case DialogSubject(Dialog.REJECT, CardTarget() as target):
            return json.dumps({"target": f"{_PLAN}:{encode(target)}"})
        case DialogSubject(Dialog.SEND_BACK, CallTarget() as target):
            return json.dumps({"target": encode(target)})
        case DialogSubject(Dialog.PICK, Setting() as setting):
            return json.dumps(asdict(setting), ensure_ascii=False)
        case DialogSubject(Dialog.REQUEST, FormTarget() as target):
            made = {"form": encode(target), "again": target.again, **asdict(target.setting)}
            return json.dumps(made, ensure_ascii=False)
        case DialogSubject(Dialog.DELEGATE, NoTarget() as target):
            return json.dumps({"target": encode(target)})
    raise ValueError(f"no {about.dialog} dialog is about a {type(about.target).__name__}")


def decode_dialog(view: Mapping[str, Any]) -> DialogSubject | MalformedValue:
    """Return which dialog was submitted and its target, or MalformedValue."""
    name = str(view.get("callback_id") or "")
    if name not in frozenset(Dialog):
        return MalformedValue(f"unknown dialog {name[:80]!r}")
    dialog, about = Dialog(name), _metadata(view)
    value = about.get("target")
    target: Target | None = None
    match dialog:
        case Dialog.REVIEW | Dialog.EDIT | Dialog.ANSWER:
            revision = about.get("revision")
            if isinstance(revision, int) and not isinstance(revision, bool):
                target = _target(CallTarget, f"{about.get('call')}:{revision}")
        case Dialog.SEND_BACK if isinstance(value, str):
            target = _target(CallTarget, value)
        case Dialog.DELEGATE if isinstance(value, str):
            target = _target(NoTarget, value)
        case Dialog.REJECT if isinstance(value, str):
            kind, _, rest = value.partition(":")
            kinds: dict[str, type[Target]] = {_CALL: CallTarget, _PLAN: CardTarget}
            target = _target(kinds[kind], rest) if kind in kinds else None
        case Dialog.PICK:
            target = _setting(about)
        case Dialog.REQUEST:
            target = _form(about)
    if target is not None:
        return DialogSubject(dialog, target)
    return MalformedValue(f"dialog {dialog} with odd metadata", dialog)


def _setting(about: Mapping[str, Any]) -> Setting | None:
    given = {each.name: about.get(each.name) for each in fields(Setting)}
    found = {name: value for name, value in given.items() if isinstance(value, str)}
    return Setting(**found) if len(found) == len(given) else None


def _form(about: Mapping[str, Any]) -> FormTarget | None:
    form, again, setting = about.get("form"), about.get("again"), _setting(about)
    if not isinstance(form, str) or not isinstance(again, str) or setting is None:
        return None
    target = _target(FormTarget, form)
    return replace(target, again=again, setting=setting) if isinstance(target, FormTarget) else None


def note_thread(view: Mapping[str, Any], channel: str, thread_ts: str) -> dict[str, Any]:
    """Return the dialog's view with the thread of its request added to the metadata."""
    noted = {**_metadata(view), "thread": f"{channel}:{thread_ts}"}
    return {**view, "private_metadata": json.dumps(noted, ensure_ascii=False)}


def thread_of(view: Mapping[str, Any]) -> tuple[str, str]:
    """Return the channel and thread that `note_thread` added to the view; ("", "") for none."""
    channel, _, thread_ts = str(_metadata(view).get("thread") or "").partition(":")
    return channel, thread_ts


def _metadata(view: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        found = json.loads(view.get("private_metadata") or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, Mapping) else {}


def block_id(block: Block, about: Target | str, *numbers: int) -> str:
    """Return the id of a message's block: its kind, its target or name, then any `numbers`."""
    return ":".join([block, about if isinstance(about, str) else encode(about), *map(str, numbers)])
