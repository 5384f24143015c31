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

from bot.cards.action_names import OVERFLOW_MENU_ACTION_ID, Action, BlockRole, DialogId


@dataclass(frozen=True, slots=True)
class CallTarget:
    """One call, at the revision that was shown."""

    call: str
    revision: int


@dataclass(frozen=True, slots=True)
class CardTarget:
    """All calls that wait on one card, at the card's revision that was shown."""

    plan: str
    revision: int  # of the card, from `storage.calls.compute_card_revision`
    card: int  # the message's number in the outbox


@dataclass(frozen=True, slots=True)
class RunTarget:
    """A whole request (a run)."""

    run: str


@dataclass(frozen=True, slots=True)
class ModelAnswerRating:
    """One person's opinion, good or bad, of the answer to a request."""

    run: str
    good: bool


@dataclass(frozen=True, slots=True)
class FormContext:
    """The channel that a form is filled in for, and the message that the request is about."""

    channel: str = ""  # "" for a direct message with the requester
    quoted: str = ""  # the text of the message that the request is about
    link: str = ""  # that message's address
    asked_in: str = ""  # the channel where the form was opened, if it is another one


class FormSource(StrEnum):
    """What a form was made from: a tool, or a template of the policy."""

    TOOL = "tool"
    TEMPLATE = "template"  # from the policy, with some fields filled in and fixed


@dataclass(frozen=True, slots=True)
class FormTarget:
    """The form of a tool or a template, and where its request is made."""

    kind: FormSource
    name: str
    form_context: FormContext = FormContext()
    repeated_call_id: str = ""  # the call whose values it starts with; "" for none


@dataclass(frozen=True, slots=True)
class DelegationTarget:
    """One delegation, by which one person decides for another."""

    delegation: str


@dataclass(frozen=True, slots=True)
class PasskeyTarget:
    """One passkey of a person."""

    passkey: str


class HomeTabPart(StrEnum):
    """The part of the Home tab that is shown."""

    ALL = "all"  # the overview, with the first few of everything
    WAITING = "waiting"
    MINE = "mine"
    PASSKEYS = "passkeys"


@dataclass(frozen=True, slots=True)
class HomeTabTarget:
    """One page of the Home tab, for one channel or for all."""

    part: HomeTabPart = HomeTabPart.ALL
    page: int = 0
    channel: str = ""  # only requests from this channel; "" for all channels


DEFAULT_HOME_TARGET = HomeTabTarget()  # what Home shows when it is opened


@dataclass(frozen=True, slots=True)
class NoTarget:
    """The target of a button that shows or begins something and names no row."""


Target = (
    CallTarget
    | CardTarget
    | RunTarget
    | ModelAnswerRating
    | FormContext
    | FormTarget
    | DelegationTarget
    | PasskeyTarget
    | HomeTabTarget
    | NoTarget
)


@dataclass(frozen=True, slots=True)
class Click:
    """A clicked action, and what it acts on."""

    action: Action
    target: Target


@dataclass(frozen=True, slots=True)
class DialogSubject:
    """A dialog, and what it is about."""

    dialog: DialogId
    target: Target


@dataclass(frozen=True, slots=True)
class MalformedValue:
    """An id or a value that the bot never issued."""

    why: str  # for the log
    name: Action | DialogId | None = None  # what it claims to be; None if that is unknown


DIALOG_ACTIONS = frozenset(
    {
        Action.REVIEW,
        Action.EDIT,
        Action.REJECT,
        Action.REJECT_ALL,
        Action.SEND_BACK,
        Action.BREAK_GLASS,
        Action.OBJECT,
        Action.HAND_OVER,
        Action.REQUEST,
        Action.PICK,
        Action.ASK_AGAIN,
        Action.ANSWER,
        Action.DELEGATE,
        Action.RENAME_PASSKEY,
    }
)
# these only show something to one person: answered at once, and not stored
LOOK_ACTIONS = frozenset(
    {
        Action.LOOK_WAITING,
        Action.LOOK_REQUESTS,
        Action.LOOK_HISTORY,
        Action.LOOK_GRANTS,
        Action.LOOK_HELP,
        Action.LOOK_SHOW,
    }
)
HOME_PAGE_ACTIONS = frozenset(  # these only change what the Home tab shows; not stored either
    {
        Action.HOME_ALL,
        Action.HOME_WAITING,
        Action.HOME_MINE,
        Action.HOME_PASSKEYS,
        Action.HOME_BEFORE,
        Action.HOME_NEXT,
        Action.HOME_CHANNEL,
        Action.HOME_ANYWHERE,
    }
)
_PASSKEY_ACTIONS = (Action.RENAME_PASSKEY, Action.REVOKE_PASSKEY, Action.DISOWN_PASSKEY)
_TARGET_TYPE_BY_ACTION: Mapping[Action, type[Target]] = {
    **dict.fromkeys(Action, CallTarget),  # except for those below
    Action.APPROVE_ALL: CardTarget,
    Action.REJECT_ALL: CardTarget,
    Action.CANCEL_RUN: RunTarget,
    Action.RETRY: RunTarget,
    Action.FEEDBACK: ModelAnswerRating,
    Action.REQUEST: FormContext,
    Action.PICK: FormTarget,
    **dict.fromkeys(LOOK_ACTIONS - {Action.LOOK_SHOW}, NoTarget),
    Action.LOOK_SHOW: RunTarget,
    **dict.fromkeys(HOME_PAGE_ACTIONS, HomeTabTarget),
    Action.DELEGATE: NoTarget,
    Action.ADD_PASSKEY: NoTarget,
    **dict.fromkeys(_PASSKEY_ACTIONS, PasskeyTarget),
    Action.OPEN_PAGE: NoTarget,
    Action.END_DELEGATION: DelegationTarget,
}
_BUTTON_AND_MENU_ACTIONS = frozenset(
    {Action.REVIEW, Action.REJECT, Action.HAND_OVER, Action.CANCEL_RUN}
)
_MENU_ACTIONS = _BUTTON_AND_MENU_ACTIONS | {
    Action.ROWS,
    Action.SEND_BACK,
    Action.WITHDRAW,
    Action.ASK_AGAIN,
}
_MENU_ACTIONS |= {Action.BREAK_GLASS}
_BUTTON_ACTIONS = frozenset(Action) - _MENU_ACTIONS | _BUTTON_AND_MENU_ACTIONS
_GOOD_RATING = "good"
_BAD_RATING = "bad"
_NO_TARGET_VALUE = "-"
_CALL_PREFIX = "call"  # what is rejected: a call or a plan
_PLAN_PREFIX = "plan"
_ID_REGEX = "([A-Za-z0-9_-]{1,64})"
_REVISION_REGEX = "(0|[1-9][0-9]{0,8})"
_LONG_NUMBER_REGEX = "(0|[1-9][0-9]{0,17})"
_FORMAT_BY_TARGET_TYPE: Mapping[type[Target], tuple[str, Callable[..., Target]]] = {
    CallTarget: (f"{_ID_REGEX}:{_REVISION_REGEX}", lambda call, at: CallTarget(call, int(at))),
    CardTarget: (
        f"{_ID_REGEX}:{_LONG_NUMBER_REGEX}:{_LONG_NUMBER_REGEX}",
        lambda plan, at, card: CardTarget(plan, int(at), int(card)),
    ),
    RunTarget: (_ID_REGEX, RunTarget),
    FormContext: ("in:([A-Z0-9]{0,40})", FormContext),
    FormTarget: (
        f"({'|'.join(FormSource)}):([^\n]{{1,120}})",
        lambda kind, name: FormTarget(FormSource(kind), name),
    ),
    DelegationTarget: (_ID_REGEX, DelegationTarget),
    PasskeyTarget: (_ID_REGEX, PasskeyTarget),
    HomeTabTarget: (
        f"({'|'.join(HomeTabPart)}):(0|[1-9][0-9]{{0,2}})(?::([A-Z0-9]{{1,40}}))?",
        lambda part, page, channel: HomeTabTarget(HomeTabPart(part), int(page), channel or ""),
    ),
    NoTarget: (_NO_TARGET_VALUE, NoTarget),
    ModelAnswerRating: (
        f"({_GOOD_RATING}|{_BAD_RATING}):{_ID_REGEX}",
        lambda word, run: ModelAnswerRating(run, good=word == _GOOD_RATING),
    ),
}


def encode_button_value(target: Target | Click) -> str:
    """Return the value of a button with this target, or of a menu's choice (a Click)."""
    match target:
        case Click(action, chosen):
            return f"{action}:{encode_button_value(chosen)}"
        case CallTarget(call, revision):
            return f"{call}:{revision}"
        case CardTarget(plan, revision, card):
            return f"{plan}:{revision}:{card}"
        case RunTarget(run):
            return run
        case FormContext(channel):
            return f"in:{channel}"
        case FormTarget(kind, name):
            return f"{kind}:{name}"
        case ModelAnswerRating(run, good):
            return f"{_GOOD_RATING if good else _BAD_RATING}:{run}"
        case DelegationTarget(name) | PasskeyTarget(name):
            return name
        case HomeTabTarget(part, page, channel):
            return f"{part}:{page}:{channel}" if channel else f"{part}:{page}"
        case NoTarget():
            return _NO_TARGET_VALUE


def decode_click(action_id: str, value: str) -> Click | MalformedValue:
    """Return the action and target of a clicked button or chosen option, or MalformedValue."""
    name, rest, allowed = action_id, value, _BUTTON_ACTIONS
    if action_id == OVERFLOW_MENU_ACTION_ID:
        name, _, rest = value.partition(":")
        allowed = _MENU_ACTIONS
    if name not in allowed:
        return MalformedValue(f"unknown action {name[:80]!r}")
    action = Action(name)
    target = _decode_target(_TARGET_TYPE_BY_ACTION[action], rest)
    if target is None:
        return MalformedValue(f"{action} with the odd value {rest[:80]!r}", action)
    return Click(action, target)


def decode_clicked_element(action: Mapping[str, Any]) -> Click | MalformedValue:
    """Return the action and target of one element of a payload's `actions`, or MalformedValue."""
    return decode_click(str(action.get("action_id") or ""), get_clicked_element_value(action))


def get_clicked_element_value(action: Mapping[str, Any]) -> str:
    """Return the value of the clicked button or of the chosen option; "" for none.

    For a channel chosen on the Home tab: the value of the page that shows only that channel.
    """
    if channel := action.get("selected_conversation"):
        shows = _decode_target(HomeTabTarget, str(action.get("block_id")).partition(":")[2])
        at = replace(shows, page=0, channel=channel) if isinstance(shows, HomeTabTarget) else None
        return encode_button_value(at) if at else ""
    chosen = action.get("selected_option")
    option = chosen if isinstance(chosen, Mapping) else {}
    return str(action.get("value") or option.get("value") or "")


def _decode_target(kind: type[Target], value: str) -> Target | None:
    form, make = _FORMAT_BY_TARGET_TYPE[kind]
    found = re.fullmatch(form, value)
    return make(*found.groups()) if found else None


def encode_dialog_metadata(subject: DialogSubject) -> str:
    """Return the private metadata of a dialog; ValueError if the dialog cannot have this target."""
    match subject:
        case DialogSubject(
            DialogId.REVIEW | DialogId.EDIT | DialogId.ANSWER, CallTarget(call, revision)
        ):
            return json.dumps({"call": call, "revision": revision})
        case DialogSubject(DialogId.REJECT, CallTarget() as target):
            return json.dumps({"target": f"{_CALL_PREFIX}:{encode_button_value(target)}"})
        case DialogSubject(DialogId.REJECT, CardTarget() as target):
            return json.dumps({"target": f"{_PLAN_PREFIX}:{encode_button_value(target)}"})
        case DialogSubject(
            DialogId.SEND_BACK | DialogId.BREAK_GLASS | DialogId.OBJECT | DialogId.HAND_OVER,
            CallTarget() as target,
        ):
            return json.dumps({"target": encode_button_value(target)})
        case DialogSubject(DialogId.PICK, FormContext() as setting):
            return json.dumps(asdict(setting), ensure_ascii=False)
        case DialogSubject(DialogId.REQUEST, FormTarget() as target):
            metadata = {
                "form": encode_button_value(target),
                "again": target.repeated_call_id,
                **asdict(target.form_context),
            }
            return json.dumps(metadata, ensure_ascii=False)
        case DialogSubject(DialogId.DELEGATE, NoTarget() as target) | DialogSubject(
            DialogId.RENAME_PASSKEY, PasskeyTarget() as target
        ):
            return json.dumps({"target": encode_button_value(target)})
    raise ValueError(f"no {subject.dialog} dialog is about a {type(subject.target).__name__}")


def decode_dialog_subject(view: Mapping[str, Any]) -> DialogSubject | MalformedValue:
    """Return which dialog was submitted and its target, or MalformedValue."""
    name = str(view.get("callback_id") or "")
    if name not in frozenset(DialogId):
        return MalformedValue(f"unknown dialog {name[:80]!r}")
    dialog, about = DialogId(name), _parse_metadata(view)
    value = about.get("target")
    target: Target | None = None
    match dialog:
        case DialogId.REVIEW | DialogId.EDIT | DialogId.ANSWER:
            revision = about.get("revision")
            if isinstance(revision, int) and not isinstance(revision, bool):
                target = _decode_target(CallTarget, f"{about.get('call')}:{revision}")
        case DialogId.SEND_BACK | DialogId.BREAK_GLASS | DialogId.OBJECT | DialogId.HAND_OVER if (
            isinstance(value, str)
        ):
            target = _decode_target(CallTarget, value)
        case DialogId.DELEGATE if isinstance(value, str):
            target = _decode_target(NoTarget, value)
        case DialogId.RENAME_PASSKEY if isinstance(value, str):
            target = _decode_target(PasskeyTarget, value)
        case DialogId.REJECT if isinstance(value, str):
            kind, _, rest = value.partition(":")
            kinds: dict[str, type[Target]] = {_CALL_PREFIX: CallTarget, _PLAN_PREFIX: CardTarget}
            target = _decode_target(kinds[kind], rest) if kind in kinds else None
        case DialogId.PICK:
            target = _decode_form_context(about)
        case DialogId.REQUEST:
            target = _decode_form_target(about)
    if target is not None:
        return DialogSubject(dialog, target)
    return MalformedValue(f"dialog {dialog} with odd metadata", dialog)


def _decode_form_context(values: Mapping[str, Any]) -> FormContext | None:
    given = {each.name: values.get(each.name) for each in fields(FormContext)}
    found = {name: value for name, value in given.items() if isinstance(value, str)}
    return FormContext(**found) if len(found) == len(given) else None


def _decode_form_target(values: Mapping[str, Any]) -> FormTarget | None:
    form, again, setting = values.get("form"), values.get("again"), _decode_form_context(values)
    if not isinstance(form, str) or not isinstance(again, str) or setting is None:
        return None
    target = _decode_target(FormTarget, form)
    return (
        replace(target, repeated_call_id=again, form_context=setting)
        if isinstance(target, FormTarget)
        else None
    )


def add_thread_to_metadata(view: Mapping[str, Any], channel: str, thread_ts: str) -> dict[str, Any]:
    """Return the dialog's view with the thread of its request added to the metadata."""
    noted = {**_parse_metadata(view), "thread": f"{channel}:{thread_ts}"}
    return {**view, "private_metadata": json.dumps(noted, ensure_ascii=False)}


def get_thread_from_metadata(view: Mapping[str, Any]) -> tuple[str, str]:
    """Return the channel and thread that `add_thread_to_metadata` added; ("", "") for none."""
    channel, _, thread_ts = str(_parse_metadata(view).get("thread") or "").partition(":")
    return channel, thread_ts


def _parse_metadata(view: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        found = json.loads(view.get("private_metadata") or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, Mapping) else {}


def build_block_id(block: BlockRole, target: Target | str, *numbers: int) -> str:
    """Return a block's id: what the block is for, its target or name, and any `numbers`."""
    name = target if isinstance(target, str) else encode_button_value(target)
    return ":".join([block, name, *map(str, numbers)])
