"""The statuses of calls, runs, messages, deliveries and installations, and the allowed changes.

The state machines are tables one can read; docs/architecture.md draws them. Pure.

A PENDING call with a time to start stays PENDING once votes have approved it; when that time comes,
it becomes APPROVED. An installation that was PAUSED when it was REMOVED is PAUSED again when it is
installed again.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar


class CallStatus(StrEnum):
    """The status of one tool call that the model proposed."""

    PENDING = "pending"  # shown to people, who may decide until the deadline
    APPROVED = "approved"  # may run: by votes, or because policy allows it
    # never asked: denied by policy, invalid, unknown tool, repeat of a rejection
    REFUSED = "refused"
    REJECTED = "rejected"  # a person said no
    ANSWERED = "answered"  # a question that a person has answered; nothing ran
    EXPIRED = "expired"  # nobody decided before the deadline
    CANCELLED = "cancelled"  # the run was cancelled, or an earlier step of the plan failed
    SUPERSEDED = "superseded"  # the requester asked for something else
    INVALIDATED = "invalidated"  # what people were shown is no longer what would run
    RUNNING = "running"  # stored before the tool starts
    ENTRUSTED = "entrusted"  # a sub-agent works on it, in a run of its own; it occupies no worker
    SUCCEEDED = "succeeded"  # the tool returned
    FAILED = "failed"  # the tool raised, or a person said it did not happen
    UNKNOWN = "unknown"  # it started, and how it ended is not known


class CallVerb(StrEnum):
    """What a person can do to a call.

    A stored vote holds one of APPROVE, REJECT, BREAK_GLASS, LOOK and OBJECT.
    """

    APPROVE = "approve"
    REJECT = "reject"
    EDIT = "edit"
    SEND_BACK = "send_back"  # ask for another plan, with a remark
    WITHDRAW = "withdraw"  # by the person who made the request
    RESOLVE = "resolve"  # say what happened to an UNKNOWN call
    BREAK_GLASS = "break_glass"  # run it alone and at once, without approval
    LOOK = "look"  # look afterwards at what ran without approval
    OBJECT = "object"  # look afterwards, and say that something is wrong


LOOK_VERBS = (CallVerb.LOOK, CallVerb.OBJECT)


class UnknownCallResolution(StrEnum):
    """A person's answer to what became of a call whose status is UNKNOWN."""

    DONE = "done"
    NOT_DONE = "not_done"
    AGAIN = "again"  # run it once more


class VoteOutcome(StrEnum):
    """The result of the votes on a call so far."""

    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"


class RunStatus(StrEnum):
    """The status of one request (run)."""

    READY = "ready"  # a worker may take it
    RUNNING = "running"  # a worker has it, with a fence and a lease
    WAITING = "waiting"  # for people, or for a sub-agent
    COMPLETED = "completed"  # answered
    FAILED = "failed"  # failed; Retry makes it READY again
    CANCELLED = "cancelled"  # the requester stopped it


class RunSource(StrEnum):
    """What started a request, and therefore who proposes its calls."""

    MESSAGE = "message"  # a person's words; the model proposes the calls
    FORM = "form"  # a person filled in a tool's form; no model takes part
    PROGRAM = "program"  # a program asked, in a person's name; no model takes part
    RUN = "run"  # a call of another run, for a sub-agent; its model proposes the calls
    SERVER = "server"  # an MCP server asks a person while its tool runs; no model takes part


class MessageStatus(StrEnum):
    """The status of one message to Slack."""

    PENDING = "pending"  # to be posted
    SENDING = "sending"  # stored before it is posted: Slack may have it already
    STREAMING = "streaming"  # a worker streams the model's words into it
    CLOSING = "closing"  # a stream that must be stopped with its final words
    SENT = "sent"  # Slack shows the current version
    STALE = "stale"  # Slack shows an older version; to be drawn again
    FAILED = "failed"  # given up


class MessageKind(StrEnum):
    """The kind of one message to Slack."""

    CARD = "card"  # drawn from a plan's rows, again and again
    COPY = "copy"  # the same without buttons, for the requester
    ANSWER = "answer"  # the model's words
    NOTICE = "notice"  # a line by the bot
    PRIVATE = "private"  # seen by one person
    TABLE = "table"  # rows that a tool returned
    FILE = "file"  # all of those rows, as CSV
    # the first message of a request that was not written in a thread of its own
    ROOT = "root"
    MARK = "mark"  # the reaction on the request's own message, whose ts is in `ts`


class InstallationState(StrEnum):
    """Whether the bot works for a workspace in which it was installed."""

    ACTIVE = "active"  # it works
    PAUSED = "paused"  # the operator has stopped it; installing it again does not resume it
    REMOVED = "removed"  # somebody there uninstalled it; the workspace's data is kept for a while


MODEL_DRIVEN_SOURCES = (RunSource.MESSAGE, RunSource.RUN)  # a model proposes the calls
DRAWN_MESSAGE_KINDS = (MessageKind.CARD, MessageKind.COPY)  # from the rows of calls, repeatedly


class DeliveryStatus(StrEnum):
    """The status of one delivery from Slack."""

    NEW = "new"  # stored, but not processed yet
    HELD = "held"  # a message that waits for the run's next model turn
    DONE = "done"
    BROKEN = "broken"  # it could not be processed, and is skipped from then on


class Surface(StrEnum):
    """The place where a person acted and reads the answer."""

    SLACK = "slack"
    TERMINAL = "terminal"  # on the machine that the bot runs on
    ADDED = "added"  # brought by another package
    PAGE = "page"  # the bot's own web page, where people sign and enrol passkeys


class ChannelMode(StrEnum):
    """A channel's limit on what calls may do there, in addition to the policy."""

    ASK = "ask"  # as the policy says
    STRICT = "strict"  # all but reads must be approved, and no remembered approval counts
    OBSERVE = "observe"  # only reads run


class DeliveryKind(StrEnum):
    """The kind of one delivery, from Slack or elsewhere."""

    MESSAGE = "message"
    EVENT = "event"
    ACTION = "action"  # a click
    SUBMISSION = "submission"  # of a dialog
    TYPED = "typed"  # a message to the agent from another surface than Slack
    PROGRAM = "program"  # a call requested by a program or the bot's code, stored like the others
    SIGNATURE = "signature"  # an authenticator's signature of a decision, posted by the page
    ENROLMENT = "enrolment"  # an authenticator's answer about a new passkey, posted by the page


class SigningLinkKind(StrEnum):
    """What a private link is for: signing a decision, or enrolling a passkey."""

    SIGN = "sign"  # one decision about one call
    ENROL = "enrol"  # a new passkey


C, R = CallStatus, RunStatus

CALL_INITIAL_STATUSES: frozenset[CallStatus] = frozenset({C.PENDING, C.APPROVED, C.REFUSED})
CALL_TRANSITIONS: dict[CallStatus, frozenset[CallStatus]] = {
    C.PENDING: frozenset(
        {C.APPROVED, C.REJECTED, C.ANSWERED, C.EXPIRED, C.CANCELLED, C.SUPERSEDED, C.INVALIDATED}
    ),
    # UNKNOWN: what was to run again is not, so all that is known is that it was started before
    C.APPROVED: frozenset(
        {C.RUNNING, C.CANCELLED, C.SUPERSEDED, C.INVALIDATED, C.PENDING, C.UNKNOWN}
    ),
    C.RUNNING: frozenset({C.SUCCEEDED, C.FAILED, C.UNKNOWN, C.PENDING, C.ENTRUSTED}),
    C.ENTRUSTED: frozenset({C.SUCCEEDED, C.FAILED, C.CANCELLED, C.SUPERSEDED}),
    C.UNKNOWN: frozenset({C.SUCCEEDED, C.FAILED, C.APPROVED}),
    C.REFUSED: frozenset(),
    C.REJECTED: frozenset(),
    C.ANSWERED: frozenset(),
    C.EXPIRED: frozenset(),
    C.CANCELLED: frozenset(),
    C.SUPERSEDED: frozenset(),
    C.INVALIDATED: frozenset(),
    C.SUCCEEDED: frozenset(),
    C.FAILED: frozenset(),
}
CALL_FINAL_STATUSES: frozenset[CallStatus] = frozenset(
    s for s, to in CALL_TRANSITIONS.items() if not to
)
# of calls that may run or have run, whatever the outcome
CALL_APPROVED_STATUSES = (C.APPROVED, C.RUNNING, C.ENTRUSTED, C.SUCCEEDED, C.FAILED, C.UNKNOWN)

RUN_INITIAL_STATUSES: frozenset[RunStatus] = frozenset({R.READY})
RUN_TRANSITIONS: dict[RunStatus, frozenset[RunStatus]] = {
    R.READY: frozenset({R.RUNNING, R.CANCELLED}),
    R.RUNNING: frozenset({R.WAITING, R.READY, R.COMPLETED, R.FAILED, R.CANCELLED}),
    R.WAITING: frozenset({R.READY, R.CANCELLED}),
    R.FAILED: frozenset({R.READY}),
    R.COMPLETED: frozenset(),
    R.CANCELLED: frozenset(),
}
RUN_OPEN_STATUSES: frozenset[RunStatus] = frozenset({R.READY, R.RUNNING, R.WAITING})


M, D = MessageStatus, DeliveryStatus

MESSAGE_INITIAL_STATUSES: frozenset[MessageStatus] = frozenset({M.PENDING, M.STREAMING})
MESSAGE_TRANSITIONS: dict[MessageStatus, frozenset[MessageStatus]] = {
    # SENT directly: messages that are never updated, such as private ones and files
    M.PENDING: frozenset({M.SENDING, M.SENT, M.STALE, M.FAILED}),
    M.SENDING: frozenset({M.PENDING, M.SENT, M.STALE, M.FAILED}),
    M.STREAMING: frozenset({M.CLOSING}),
    M.CLOSING: frozenset({M.PENDING, M.SENT, M.STALE, M.FAILED}),
    M.SENT: frozenset({M.STALE}),
    M.STALE: frozenset({M.PENDING, M.SENT, M.FAILED}),
    # a message that Slack still shows is drawn again; a stream that has started after all is closed
    M.FAILED: frozenset({M.STALE, M.CLOSING}),
}
MESSAGE_OPEN_STATUSES = (M.PENDING, M.SENDING, M.CLOSING, M.STALE)  # still to be sent or redrawn

DELIVERY_INITIAL_STATUSES: frozenset[DeliveryStatus] = frozenset({D.NEW})
DELIVERY_TRANSITIONS: dict[DeliveryStatus, frozenset[DeliveryStatus]] = {
    D.NEW: frozenset({D.HELD, D.DONE, D.BROKEN}),
    D.HELD: frozenset({D.DONE}),
    D.DONE: frozenset(),
    D.BROKEN: frozenset(),
}


INSTALLATION_TRANSITIONS: dict[InstallationState, frozenset[InstallationState]] = {
    InstallationState.ACTIVE: frozenset({InstallationState.PAUSED, InstallationState.REMOVED}),
    InstallationState.PAUSED: frozenset({InstallationState.ACTIVE, InstallationState.REMOVED}),
    InstallationState.REMOVED: frozenset({InstallationState.ACTIVE, InstallationState.PAUSED}),
}


class IllegalStatusChangeError(Exception):
    """A status change that a state machine does not have: a bug in the caller, never a race."""


S = TypeVar("S", CallStatus, RunStatus, MessageStatus, DeliveryStatus, InstallationState)


def require_allowed_status_change(moves: dict[S, frozenset[S]], source: S, target: S) -> None:
    """Raise IllegalStatusChangeError unless `moves` allows the change of `source` to `target`."""
    if target not in moves[source]:
        raise IllegalStatusChangeError(f"{source} -> {target}")
