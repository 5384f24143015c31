"""A call as the terminal shows it: plain data, all of it text for people. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from storage.states import CallStatus


class May(StrEnum):
    """What the operator may do to a call now."""

    APPROVE = "approve"
    EDIT = "edit"
    REJECT = "reject"
    ANSWER = "answer"
    RESOLVE = "resolve"  # say what became of it


@dataclass(frozen=True, slots=True)
class FieldShown:
    """One thing that can be filled in."""

    name: str  # what is typed before the "="
    label: str
    text: str  # what stands there
    options: tuple[str, ...] = ()  # where it is one of these
    lines: bool = False  # one on each line
    hint: str = ""


@dataclass(frozen=True, slots=True)
class CallShown:
    """One call, as everybody may read it who sees its card."""

    id: str  # with its revision: what a decision is about
    plan: str  # the plan with its revision, where more of it waits; "" where nothing does
    run: str
    status: CallStatus
    effect: str
    requester: str
    values: tuple[tuple[str, str, str], ...]  # title, what it is, what it was before an edit
    is_final: bool = False  # it cannot be undone, or that is not known
    final: str = ""  # what is known of that, in a sentence
    chain: tuple[str, ...] = ()  # which sub-agents stand between, a line each
    preview: str = ""
    reason: str = ""  # why, in the words of the agent or of whoever asked
    deciders: str = ""  # who may decide, or is asked
    deadline: str = ""
    approved_by: str = ""
    note: str = ""  # what came of it
    question: bool = False
    declined: bool = False  # who was asked could not say
    covered: tuple[str, ...] = ()  # what of it is shown in Slack only
    may: tuple[May, ...] = ()
    fields: tuple[FieldShown, ...] = ()
