"""The answers of `/approvals`: the menu, lists of calls and requests, a request's history. Pure.

Nothing is decided here; each list ends with the menu, so that one answer leads to the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count

from bot.cards.action_names import Action, BlockRole
from bot.cards.block_kit import (
    Json,
    actions_block,
    button,
    context_block,
    count_text_characters,
    divider_block,
    header_block,
    mrkdwn,
    plain_text,
    rich_text_block,
    rich_text_line,
    section_block,
    text_leaf,
    time_leaf,
    user_mention_leaf,
)
from bot.cards.button_codec import FormContext, NoTarget, RunTarget, Target, build_block_id
from bot.cards.call_pieces import get_argument_label, show_hidden_characters_or_default
from bot.cards.decided_call import ICONS, LABEL_BY_STATUS, LABEL_BY_VOTE
from bot.cards.slack_text import (
    channel_mention,
    format_local_time,
    format_time_with_countdown,
    shorten_text,
    user_mention,
)
from bot.cards.value_changes import shorten_change
from bot.cards.views import ArgumentValue
from countersign.durations import format_count
from storage.masking import mask_secrets
from storage.states import CallStatus, CallVerb, RunStatus


@dataclass(frozen=True, slots=True)
class SlashCommandAnswerFile:
    """A file sent along with an answer."""

    name: str
    title: str
    alt: str  # for people who cannot see it
    content: bytes


@dataclass(frozen=True, slots=True)
class SlashCommandAnswer:
    """An answer to `/approvals`: the notification and the blocks."""

    text: str
    blocks: list[Json]
    build_file: Callable[[], SlashCommandAnswerFile] | None = None  # called once the rest is sent


@dataclass(frozen=True, slots=True)
class ListedCall:
    """One call in a list of calls."""

    run: str
    effect: str  # "Refund 40.00 EUR of order 1042"; secrets masked
    status: CallStatus
    requester: str  # Slack user id
    channel: str  # where it was asked
    deadline: datetime | None
    decided_at: datetime | None
    deciders: tuple[str, ...] = ()  # as mentions and words: "<@U…>", "<@U…> for <@U…>"
    unapproved: bool = False  # the decider ran it without approval
    link: str = ""  # to its card, else to its request
    starts_at: datetime | None = None  # if it is approved and waits for that time
    represented_person: str = ""  # for a delegate: the person they decide for


@dataclass(frozen=True, slots=True)
class ListedRun:
    """One request in a list of requests."""

    run: str
    words: str  # what was asked; "" if nobody wrote anything, or it has not been read yet
    asked_at: datetime
    status: RunStatus
    # status and effect of each, whether it is a question to people, and whether it was declined
    calls: tuple[tuple[CallStatus, str, bool, bool], ...]
    more_calls: int = 0  # calls that are not among these
    link: str = ""
    origin_text: str = ""  # how it was asked, if nobody wrote anything; plain text


@dataclass(frozen=True, slots=True)
class PastRevision:
    """The arguments of a call at one moment."""

    number: int
    author: str  # a Slack user id; "" for the agent
    made_at: datetime
    values: tuple[ArgumentValue, ...]  # secrets masked


@dataclass(frozen=True, slots=True)
class PastVote:
    """One person's vote on one revision of a call."""

    person: str  # Slack user id
    represented_person: str  # the person they voted for as a delegate; "" for themselves
    verb: CallVerb
    revision: int
    stage: int
    voted_at: datetime
    words: str  # secrets masked


@dataclass(frozen=True, slots=True)
class CallHistoryEntry:
    """One call in a request's history, from its proposal to its end."""

    effect: str
    tool: str  # its name
    status: CallStatus
    digest: str
    reason: str  # the reason given by whoever proposed it
    revisions: tuple[PastRevision, ...]
    votes: tuple[PastVote, ...]
    hand_overs: tuple[tuple[datetime, str, str], ...]  # when, by whom and to whom
    deadline: datetime | None
    decided_at: datetime | None
    finished_at: datetime | None
    note: str  # why it ended, or its result
    agent: str = "the agent"  # the agent that proposed it, if one did
    declined: bool = False  # a question that the people asked could not answer


@dataclass(frozen=True, slots=True)
class RequestHistory:
    """The history of one request, from its first word to its end."""

    run: str
    words: str
    requester: str
    channel: str
    asked_at: datetime
    status: RunStatus
    calls: tuple[CallHistoryEntry, ...]
    link: str
    origin_text: str = ""  # how it was asked, if nobody wrote anything; plain text


# Addresses of messages in Slack. Pure.

# as Slack writes them: channel, the message's ts without its dot and, for a reply, the ts of its
# thread
_PERMALINK_PATTERN = re.compile(
    r"<?https?://[^\s/<>|]+/archives/([CGD][A-Z0-9]+)/p(\d{10})(\d{6})"
    r"(?:\?(?:[^\s<>|]*&)?thread_ts=(\d{10}\.\d{6}))?[^\s<>|]*(?:\|[^<>]*)?>?"
)
_REQUEST_ID_PATTERN = re.compile(r"[A-Za-z0-9_-]{22}|#[0-9a-f]{8,64}")


def format_permalink(workspace: str, channel: str, ts: str, thread_ts: str = "") -> str:
    """Return the address of a message, given its workspace's address; "" if a part is unknown."""
    if not (workspace and ts and channel[:1] in ("C", "G", "D")):
        return ""
    link = f"{workspace.rstrip('/')}/archives/{channel}/p{ts.replace('.', '')}"
    in_thread = thread_ts and thread_ts != ts
    return f"{link}?thread_ts={thread_ts}&cid={channel}" if in_thread else link


def parse_permalink(link: str) -> tuple[str, str, str] | None:
    """Return channel, ts and thread of the message at an address; None if it is no such address."""
    found = _PERMALINK_PATTERN.fullmatch(link)
    if found is None:
        return None
    channel, seconds, fraction, thread = found.groups()
    ts = f"{seconds}.{fraction}"
    return channel, ts, thread or ts


def is_request_reference(text: str) -> bool:
    """Return whether a text is a message's address, an id of the record, or a fingerprint."""
    return parse_permalink(text) is not None or bool(_REQUEST_ID_PATTERN.fullmatch(text.strip("`")))


MAX_ENTRIES = 10  # of one list
MAX_EFFECT_CHARS, MAX_REQUEST_CHARS, MAX_VALUE_CHARS = 300, 150, 200
DECLINED_LABEL = "Declined: they cannot say"
UNLISTED_CALLS_NOTICE = (
    "More calls are waiting in this workspace than I can list here. Their cards show them."
)
MAX_ANSWER_CHARS = 9_000
MAX_FIELDS, MAX_REVISIONS = 12, 6  # shown of one call
LABEL_BY_RUN_STATUS = {
    RunStatus.READY: "⚙️ at work",
    RunStatus.RUNNING: "⚙️ at work",
    RunStatus.WAITING: "⏳ waiting for people",
    RunStatus.COMPLETED: "🏁 finished",
    RunStatus.FAILED: "❌ could not continue; use Retry in its thread",
    RunStatus.CANCELLED: "⏹️ cancelled",
}
OVERVIEW_BUTTONS: Sequence[tuple[str, Action, Target]] = (
    ("What is waiting for me", Action.LOOK_WAITING, NoTarget()),
    ("My requests", Action.LOOK_REQUESTS, NoTarget()),
    ("Ask for something…", Action.REQUEST, FormContext()),
    ("Recent decisions", Action.LOOK_HISTORY, NoTarget()),
    ("Saved approvals", Action.LOOK_GRANTS, NoTarget()),
    ("Delegate…", Action.DELEGATE, NoTarget()),
    ("Help", Action.LOOK_HELP, NoTarget()),
)


def render_overview_menu(text: str = "What would you like to see?") -> SlashCommandAnswer:
    """Draw one of the bot's own texts with the `/approvals` menu."""
    return SlashCommandAnswer(
        text,
        [section_block(_build_overview_block_id("menu"), mrkdwn(text)), _render_overview_buttons()],
    )


def add_overview_menu(answer: SlashCommandAnswer) -> SlashCommandAnswer:
    """Return the answer with the menu's buttons below it, added if they are missing."""
    if answer.blocks[-1].get("block_id") == _build_overview_block_id("looks"):
        return answer
    return replace(answer, blocks=[*answer.blocks, _render_overview_buttons()])


def _render_overview_buttons() -> Json:
    return actions_block(
        _build_overview_block_id("looks"),
        [button(action, label, about) for label, action, about in OVERVIEW_BUTTONS],
    )


def render_waiting_call_list(
    calls: Sequence[ListedCall], *, more: int, unsure: int, unread: bool, questions: int
) -> SlashCommandAnswer:
    """Draw the calls that wait for a person's decision.

    `more`: how many calls are not listed; `unsure`: for how many Slack did not say whether the
    person may decide; `unread`: whether there are more waiting calls that were not examined;
    `questions`: how many questions wait for the person's answer.
    """
    nothing = "No decision is waiting for you." if questions else "☕ Nothing is waiting for you."
    title = "Waiting for you" if calls else nothing
    notes = [f"and {more} more"] if more else []
    if questions:
        waiting_text = "A question is" if questions == 1 else f"{questions} questions are"
        notes.append(f"💬 {waiting_text} waiting for your answer, on my Home tab")
    if unsure:
        notes.append(f"{unknown_permission_note(unsure)} Ask again later")
    if unread:
        notes.append(UNLISTED_CALLS_NOTICE.rstrip("."))
    return _render_list(title, map(_render_call_entry, count(), calls), notes)


def unknown_permission_note(calls: int) -> str:
    """Return the note that Slack did not say for `calls` calls whether the reader may decide."""
    return (
        f"⚠️ I cannot tell at the moment whether you may decide {format_count(calls, 'call')}, "
        "because Slack does not answer."
    )


def render_request_list(found: Sequence[ListedRun], *, more: bool) -> SlashCommandAnswer:
    """Draw a person's own requests, the newest first."""
    title = "Your requests" if found else "You have not asked for anything yet."
    notes = ["Older ones are not listed here; see their threads"] if more else []
    return _render_list(title, map(_render_run_entry, count(), found), notes)


def render_decision_list(
    found: Sequence[ListedCall], days: int, *, more: bool
) -> SlashCommandAnswer:
    """Draw what was decided in the last `days`, by this person or on their requests."""
    span = "the last day" if days == 1 else f"the last {days} days"
    title = f"Decided in {span}" if found else f"Nothing of yours was decided in {span}."
    notes = ["Older ones are not listed here; see their threads"] if more else []
    return _render_list(title, map(_render_call_entry, count(), found), notes)


def _render_list(
    title: str, entries: Iterable[list[Json]], notes: Sequence[str]
) -> SlashCommandAnswer:
    """Build a list below a title, with as many entries as fit, saying how many are left out."""
    parts = list(entries)
    blocks = [section_block(_build_overview_block_id("title"), mrkdwn(title))]
    if parts:
        blocks = [header_block(_build_overview_block_id("title"), title)]
    kept = 0
    while kept < len(parts) and count_text_characters([*blocks, *parts[kept]]) <= MAX_ANSWER_CHARS:
        blocks += parts[kept]
        kept += 1
    left = [f"and {len(parts) - kept} more"] if kept < len(parts) else []
    if notes or left:
        blocks.append(
            context_block(
                _build_overview_block_id("notes"), [mrkdwn(". ".join([*left, *notes]) + ".")]
            )
        )
    return SlashCommandAnswer(title, blocks)


def _render_call_entry(number: int, call: ListedCall) -> list[Json]:
    icon = "⏳" if call.status is CallStatus.PENDING else ICONS[call.status]
    text = f"{icon} {mask_on_one_line(call.effect, MAX_EFFECT_CHARS)}"
    small = [f"🤝 For {user_mention(call.represented_person)}"] if call.represented_person else []
    if call.decided_at is not None:
        status = f"{LABEL_BY_STATUS[call.status]}{call_deciders_text(call)}"
        small.append(f"{status}, {format_local_time(call.decided_at)}")
    asked = f"{'asked' if small else 'Asked'} by {user_mention(call.requester)}"
    small.append(f"{asked} {describe_asking_place(call.channel)}")
    if due := call.starts_at or (None if call.decided_at else call.deadline):
        small.append(f"{'starts' if call.starts_at else 'by'} {format_time_with_countdown(due)}")
    return _render_entry(
        number,
        section_block(_build_overview_block_id("entry", number), plain_text(text)),
        small,
        call,
    )


def call_deciders_text(call: ListedCall) -> str:
    """Return the words that name who decided a call: ", approved by @ana"; "" if nobody did."""
    if not call.deciders:
        return ""
    how = "" if call.status in (CallStatus.REJECTED, CallStatus.APPROVED) else ", approved"
    how = ", run without approval" if call.unapproved else how
    return f"{how} by {' and '.join(call.deciders)}"


def describe_request_beginning(of: ListedRun | RequestHistory) -> str:
    """Return a quotation of a request's first words, or how it began if there were none."""
    if of.words:
        return f"“{mask_on_one_line(of.words, MAX_REQUEST_CHARS)}”"
    return mask_on_one_line(of.origin_text or "A new request", MAX_REQUEST_CHARS)


def _render_run_entry(number: int, run: ListedRun) -> list[Json]:
    said = describe_request_beginning(run)
    lines = [said, *(f"{describe_call_status(*each)}" for each in run.calls)]
    lines += [f"and {run.more_calls} more"] if run.more_calls else []
    small = [f"{LABEL_BY_RUN_STATUS[run.status]}, asked {format_local_time(run.asked_at)}"]
    return _render_entry(
        number,
        section_block(_build_overview_block_id("entry", number), plain_text("\n".join(lines))),
        small,
        run,
    )


def _render_entry(
    number: int, top: Json, small: list[str], of: ListedCall | ListedRun
) -> list[Json]:
    if of.link:
        small.append(f"<{of.link}|Open it>")
    details = button(Action.LOOK_SHOW, "Details", RunTarget(of.run))
    return [
        {**top, "accessory": details},
        context_block(_build_overview_block_id("small", number), [mrkdwn("  ·  ".join(small))]),
    ]


def describe_call_status(
    status: CallStatus, effect: str, asks: bool = False, declined: bool = False
) -> str:
    """Return a call's status and effect on one line.

    `asks`: the call is a question, which may have been `declined`.
    """
    waits = f"⏳ Waiting for {'an answer' if asks else 'a decision'}"
    ended = f"{ICONS[status]} {DECLINED_LABEL if declined else LABEL_BY_STATUS[status]}"
    word = waits if status is CallStatus.PENDING else ended
    return f"{word}: {mask_on_one_line(effect, MAX_REQUEST_CHARS)}"


def render_request_history(of: RequestHistory) -> SlashCommandAnswer:
    """Draw one request from its first word to its end: who asked, proposed, changed, decided."""
    title = describe_request_beginning(of)
    small = [
        f"Asked by {user_mention(of.requester)} {describe_asking_place(of.channel)}, "
        f"{format_local_time(of.asked_at)}"
    ]
    small += [LABEL_BY_RUN_STATUS[of.status], *([f"<{of.link}|Open it>"] if of.link else [])]
    blocks = [
        section_block(_build_overview_block_id("title"), plain_text(title)),
        context_block(_build_overview_block_id("small"), [mrkdwn("  ·  ".join(small))]),
    ]
    if not of.calls:
        blocks.append(
            context_block(_build_overview_block_id("none"), [mrkdwn("Nothing was proposed.")])
        )
    for number, call in enumerate(of.calls):
        part = [
            divider_block(_build_overview_block_id("divider", number)),
            rich_text_block(_build_overview_block_id("call", number), _render_past_call(call)),
        ]
        if count_text_characters([*blocks, *part]) > MAX_ANSWER_CHARS or number >= MAX_ENTRIES:
            more = f"and {len(of.calls) - number} more; `countersign audit` has all of it."
            blocks.append(context_block(_build_overview_block_id("notes"), [mrkdwn(more)]))
            break
        blocks += part
    return SlashCommandAnswer(title, blocks)


def _render_past_call(call: CallHistoryEntry) -> list[Json]:
    icon = "⏳" if call.status is CallStatus.PENDING else ICONS[call.status]
    title = f"{icon} {mask_on_one_line(call.effect, MAX_EFFECT_CHARS)}"
    lines = [rich_text_line(text_leaf(title, bold=True))]
    if call.reason.strip():
        by_person = bool(call.revisions) and bool(call.revisions[0].author)
        whose = "Why" if by_person else "The agent’s reason"
        why = f"{whose}: “{mask_on_one_line(call.reason, MAX_EFFECT_CHARS)}”"
        lines.append(rich_text_line(text_leaf(why)))
    events = [
        (each.made_at, _render_revision(each, before, call.agent))
        for each, before in zip(call.revisions, (None, *call.revisions), strict=False)
    ]
    last = call.revisions[-1].number if call.revisions else 0
    events += [(each.voted_at, _render_vote(each, last)) for each in call.votes]
    for at, by, to in call.hand_overs:
        leaves = text_leaf("  🤝 handed over to "), user_mention_leaf(to), text_leaf(" by ")
        events.append((at, rich_text_line(time_leaf(at), *leaves, user_mention_leaf(by))))
    lines += [each for _, each in sorted(events, key=lambda each: each[0])[-2 * MAX_REVISIONS :]]
    lines += _render_call_ending(call)
    print_ = f"Fingerprint #{call.digest[:8]}" if call.digest else "No fingerprint"
    return [
        *lines,
        rich_text_line(text_leaf(f"{print_}  ·  tool "), text_leaf(call.tool, code=True)),
    ]


def _render_revision(now: PastRevision, before: PastRevision | None, agent: str) -> Json:
    by = user_mention_leaf(now.author) if now.author else text_leaf(agent)
    pairs = [(each, each.previous_text) for each in now.values if each.is_or_was_set]
    if before is None:
        shown = [(each, mask_on_one_line(each.text, MAX_VALUE_CHARS)) for each, _ in pairs]
    else:
        changes = [
            (e, shorten_change(old, e.text, MAX_VALUE_CHARS)) for e, old in pairs if old is not None
        ]
        shown = [(each, " → ".join(texts)) for each, texts in changes]
    verb = "proposed by " if before is None else "changed by " if shown else "asked again by "
    values = [f"{get_argument_label(each)}: {text}" for each, text in shown]
    more = len(values) - MAX_FIELDS
    summary = "; ".join(values[:MAX_FIELDS]) + (f"; and {more} more" if more > 0 else "")
    rest = [text_leaf(f": {shorten_text(summary, 1_500)}")] if summary else []
    return rich_text_line(time_leaf(now.made_at), text_leaf(f"  {verb}"), by, *rest)


def _render_vote(vote: PastVote, newest: int) -> Json:
    old = "" if vote.revision == newest else ", before it was changed"
    words = f": “{mask_on_one_line(vote.words, MAX_EFFECT_CHARS)}”" if vote.words.strip() else ""
    whom = vote.represented_person
    proxy = [text_leaf(", for "), user_mention_leaf(whom)] if whom else []
    return rich_text_line(
        time_leaf(vote.voted_at),
        text_leaf(f"  {LABEL_BY_VOTE[vote.verb]}"),
        user_mention_leaf(vote.person),
        *proxy,
        *([text_leaf(old + words)] if old or words else []),
    )


def _render_call_ending(call: CallHistoryEntry) -> list[Json]:
    lines = []
    if call.deadline is not None:
        waits = call.status in (CallStatus.PENDING, CallStatus.UNKNOWN)
        label = text_leaf("Waits until " if waits else "Deadline ")
        lines.append(rich_text_line(label, time_leaf(call.deadline)))
    at = call.finished_at or call.decided_at
    if call.status is not CallStatus.PENDING:
        when_ = [text_leaf(", "), time_leaf(at)] if at else []
        note = f": {mask_on_one_line(call.note, MAX_EFFECT_CHARS)}" if call.note.strip() else ""
        ended = DECLINED_LABEL if call.declined else LABEL_BY_STATUS[call.status]
        lines.append(rich_text_line(text_leaf(ended), *when_, text_leaf(note or ".")))
    return lines


def _build_overview_block_id(name: str, *numbers: int) -> str:
    return build_block_id(BlockRole.OVERVIEW, name, *numbers)


def describe_asking_place(channel: str) -> str:
    """Return where something was asked, as mrkdwn: "in #channel" or "in a direct message"."""
    return "in a direct message" if channel.startswith("D") else f"in {channel_mention(channel)}"


def mask_on_one_line(text: str, limit: int) -> str:
    """Return the text on one line of at most `limit` characters, secrets masked."""
    words = show_hidden_characters_or_default(" ".join(mask_secrets(text).split()), "(no words)")
    return shorten_text(words, limit)
