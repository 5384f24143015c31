"""The data that cards show, made from rows and drawn by `card`. Pure.

Also here: functions that read the events Slack sends.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import dropwhile
from typing import Any

from bot.cards.button_codec import CallTarget, CardTarget
from bot.cards.slack_text import shorten_text, show_hidden_characters
from bot.tools import EffectSource
from bot.tools.invisible_characters import certainly_has_no_hidden_characters, is_hidden_character
from storage.states import CallStatus

# What a person wrote to the bot, as text for the model, and its workspace. Pure.

# subtypes of messages that people write; the others tell of changes to a message or channel
HUMAN_MESSAGE_SUBTYPES = (None, "file_share", "me_message", "thread_broadcast")
CANCEL_PHRASES = frozenset(
    f"{verb}{what}"
    for verb in ("cancel", "stop", "abort")
    for what in ("", " it", " this", " that", " this request", " the request", " my request")
) | {"never mind", "nevermind", "forget it"}

# words that decide, whatever follows; words that decide if alone; words ignored beside these
_DECISION_WORD_PATTERN = re.compile(
    r"approv(?:e|ed|ing)|confirm(?:ed)?|reject(?:ed)?|den(?:y|ied)|declined?|lgtm|[+-]1|[👍👎✅]|"
    r"thumbsup|thumbsdown|white_check_mark"
)
_AGREEMENT_WORD_PATTERN = re.compile(
    r"yes|yep|yeah|ok|okay|sure|no|nope|agreed|fine|good|go|ahead|do|proceed|[👌❌]|ok_hand|x"
)
_FILLER_WORD_PATTERN = re.compile(
    r"i|i'm|we|please|this|that|it|all|both|from|my|our|side|me|for|with|to|be|is|am|hereby|now|"
    r"then|just|by|skin-tone-[2-6]"
)
_WORD_PATTERN = re.compile(r"[\w+'-]+|[👍👎✅👌❌]")

MAX_FILE_NAME_CHARS = 80
MAX_FORWARDED_CHARS = 4_000
_INLINE_ELEMENTS = ("rich_text_section", "rich_text_quote", "rich_text_preformatted")
# fields of the attachments that are not what a message's author pasted into it: links' previews,
# other apps' unfurls, forwarded messages
_FOREIGN_ATTACHMENT_FIELDS = ("from_url", "original_url", "app_unfurl_url", "bot_id", "is_share")
_CHANNEL_MENTION_PATTERN = re.compile(r"<#[CG][A-Z0-9]+\|([^>]+)>")
_MRKDWN_LINK_PATTERN = re.compile(r"<(?:(?:https?|mailto):[^|>]+)\|([^>]+)>|<(https?://[^|>]+)>")


def extract_message_text(event: dict[str, Any], bot_user: str) -> str:
    """Return a message event's words: without the bot's mention, links as typed, files named.

    Tables have a line for each row, with tabs between the cells. What the message forwards is
    quoted on one line. "" if nothing in it can be seen.
    """
    tables = [line for each in list_pasted_tables(event) for line in _list_table_lines(each)]
    files = [
        f"[attached file, called {format_quoted_file_name(file)}]"
        for file in event.get("files") or []
    ]
    forwarded = [
        line
        for each in event.get("attachments") or []
        if each.get("is_share")
        for line in _list_forwarded_lines(each, bot_user)
    ]
    text = _convert_mrkdwn_to_text(event.get("text") or "", bot_user)
    words = "\n".join([text, *tables, *forwarded, *files]).strip()
    return words if strip_invisible_characters(words).strip() else ""


def list_pasted_tables(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the tables that a message's author pasted into it, as blocks.

    Slack makes a table of cells that somebody pastes. It is a block of an attachment, sometimes of
    the message itself, and not in the text.
    """
    attachments = message.get("attachments") or []
    own = [each for each in attachments if not any(map(each.get, _FOREIGN_ATTACHMENT_FIELDS))]
    blocks = [block for part in (message, *own) for block in part.get("blocks") or []]
    return [block for block in blocks if block.get("type") == "table"]


def _list_table_lines(table: Mapping[str, Any]) -> list[str]:
    rows = [
        [" ".join(_read_element(cell).split()) for cell in row] for row in table.get("rows") or []
    ]
    # half a surrogate pair cannot be encoded
    return ["\t".join(row).encode("utf-8", "replace").decode() for row in rows]


def _read_element(part: Mapping[str, Any] | None) -> str:
    """Return the text of a table's cell, a block or a part of one, as Slack writes it in a message.

    A number is `raw_number`, with the text that people see. Buttons and menus say nothing.
    """
    part = part or {}
    element, text = part.get("type"), part.get("text")
    if element in ("actions", "button"):
        return ""
    parts = [text] if isinstance(text, Mapping) else []
    parts += [*(part.get("elements") or []), *(part.get("fields") or [])]
    if parts:
        between = "" if element in _INLINE_ELEMENTS else " "
        return between.join(map(_read_element, parts))
    match element:
        case "user":
            return f"<@{part.get('user_id')}>"
        case "channel":
            return f"<#{part.get('channel_id')}>"
        case "emoji":
            return f":{part.get('name')}:"
    values = (part.get(each) for each in ("text", "value", "url", "fallback"))
    return next((str(value) for value in values if value not in (None, "")), "")


def mentions_bot(message: Mapping[str, Any], bot_user: str) -> bool:
    """Return whether the text of a message mentions the bot."""
    return f"<@{bot_user}" in (message.get("text") or "")


def _convert_mrkdwn_to_text(text: str, bot_user: str) -> str:
    """Return a message's text without the bot's mention and markup, as it can be stored."""
    if "<" in text:
        text = re.sub(rf"<@{re.escape(bot_user)}(\|[^>]*)?>", "", text)
        text = _CHANNEL_MENTION_PATTERN.sub(r"#\1", text)
        text = _MRKDWN_LINK_PATTERN.sub(lambda m: m[1] or m[2], text)
    # half a surrogate pair cannot be encoded
    return html.unescape(text).encode("utf-8", "replace").decode().strip()


def _list_forwarded_lines(forwarded: Mapping[str, Any], bot_user: str) -> list[str]:
    """Return what a forwarded message says, and the names of its files, which are not read."""
    said = forwarded.get("text") or _join_block_texts(forwarded) or forwarded.get("fallback")
    text = _convert_mrkdwn_to_text(said or "", bot_user)
    quoted = _format_quoted_text(text, MAX_FORWARDED_CHARS) or "“”"
    files = [
        f"[file of the forwarded message, not read, called {format_quoted_file_name(file)}]"
        for file in forwarded.get("files") or []
    ]
    return [f"[forwarded message: {quoted}]", *files]


def _join_block_texts(forwarded: Mapping[str, Any]) -> str:
    """Return what the blocks of a forwarded message say: many apps post no other text."""
    originals = [each.get("message") or {} for each in forwarded.get("message_blocks") or []]
    blocks = [block for part in (forwarded, *originals) for block in part.get("blocks") or []]
    tables = ("\n".join(_list_table_lines(each)) for each in blocks if each.get("type") == "table")
    return "\n".join([*map(_read_element, blocks), *tables]).strip()


def format_quoted_file_name(file: Mapping[str, Any]) -> str:
    """Return a file's name in quotation marks; “unnamed” if nothing in it can be seen."""
    return _format_quoted_text(str(file.get("name") or ""), MAX_FILE_NAME_CHARS) or "“unnamed”"


def _format_quoted_text(text: str, limit: int) -> str:
    """Return a text in quotation marks: on one line, shortened, hidden characters shown.

    Quotation marks and brackets in it are replaced, so that it cannot pass for the words of the
    person who sends it. "" if nothing in it can be seen.
    """
    line = " ".join(text.encode("utf-8", "replace").decode().split())
    for mark, instead in (("“", "'"), ("”", "'"), ('"', "'"), ("[", "("), ("]", ")")):
        line = line.replace(mark, instead)
    if not strip_invisible_characters(line).strip():
        return ""
    return f"“{shorten_text(show_hidden_characters(line), limit)}”"


def strip_invisible_characters(text: str) -> str:
    """Return the text without the characters that nobody can see."""
    return (
        text
        if certainly_has_no_hidden_characters(text)
        else "".join(each for each in text if not is_hidden_character(each))
    )


def is_deletion(event: Mapping[str, Any]) -> bool:
    """Return whether the event says that a message was deleted.

    Slack keeps a deleted message that has replies, as a "tombstone".
    """
    after = event.get("message") or {}
    return event.get("subtype") == "message_deleted" or after.get("subtype") == "tombstone"


def may_be_for_bot(event: dict[str, Any], bot_user: str) -> bool:
    """Return whether a message could be for the bot, judged by its event alone.

    A bot's message never is, nor is a channel's message that begins a thread and mentions nobody.
    The deletion of a message of this bot may be.
    """
    before = event.get("previous_message") or {}
    if event.get("bot_id") or before.get("bot_id"):
        return is_deletion(event) and before.get("user") == bot_user
    begins = event.get("subtype") in HUMAN_MESSAGE_SUBTYPES and event.get("thread_ts") in (
        None,
        event.get("ts"),
    )
    in_channel = event.get("channel_type") in ("channel", "group", "mpim")
    return not (begins and in_channel and "<@" not in (event.get("text") or ""))


def get_receiving_workspace_id(body: dict[str, Any]) -> str:
    """Return the id of the workspace that an event is delivered to; "" if none is named.

    In a channel shared between companies `team_id` may be the other company's.
    """
    granted = [each.get("team_id") for each in body.get("authorizations") or ()]
    teams = (*granted[:1], body.get("context_team_id"), body.get("team_id"))
    return next((team for team in teams if team), "")


def get_sender_workspace_id(body: dict[str, Any]) -> str:
    """Return the id of the workspace that a click or dialog comes from; "" if none is named."""
    return (body.get("team") or {}).get("id") or (body.get("user") or {}).get("team_id") or ""


def is_only_cancellation(text: str) -> bool:
    """Return whether the text only cancels a request, like "stop it" or "never mind"."""
    words = " ".join(
        strip_invisible_characters(text).lower().strip(" .!").removeprefix("please ").split()
    )
    return words.removesuffix(" please").rstrip(" ,") in CANCEL_PHRASES


def is_decision_in_words(text: str) -> bool:
    """Return whether the text reads like a decision: "yes", "ok do it", "I approve …", "👍".

    A question never counts as one.
    """
    words = _WORD_PATTERN.findall(strip_invisible_characters(text).lower().replace("’", "'"))
    said = [each for each in words if not _FILLER_WORD_PATTERN.fullmatch(each)]
    rest = list(dropwhile(_AGREEMENT_WORD_PATTERN.fullmatch, said))
    decides = _DECISION_WORD_PATTERN.fullmatch(rest[0]) if rest else said
    return bool(decides) and "?" not in text


UNSET_LABEL = "—"  # a text of just this is put in quotes


@dataclass(frozen=True, slots=True)
class ArgumentValue:
    """One argument as a person reads it."""

    label: str  # the field's title
    text: str  # "—" for unset, "empty" for an empty text, a mask for what is declared secret
    previous_text: str | None = None  # what it was before the latest edit, where that differs
    is_secret: bool = False  # its tool's author declared it secret: it is masked for everybody
    is_partly_secret: bool = False  # something within it is secret, and masked
    # the ids of the people or channels that are its whole value, now and before the edit
    mentions: tuple[str, ...] = ()
    previous_mentions: tuple[str, ...] = ()
    # the keys in the arguments that lead to its value
    path: tuple[str, ...] = field(default=(), compare=False)
    is_in_effect: bool = False  # the effect's template puts exactly this text into its sentence
    is_code: bool = False  # it is in a programming language

    @property
    def is_or_was_set(self) -> bool:
        """Whether the argument is set, or was set until the latest edit."""
        return self.text != UNSET_LABEL or self.previous_text is not None


@dataclass(frozen=True, slots=True)
class MissingVotes:
    """How many more of these people have to approve, for one of several stages without an order."""

    count: int
    groups: tuple[str, ...] = ()  # user-group ids
    users: tuple[str, ...] = ()
    channel: str = ""  # whose members may approve


@dataclass(frozen=True, slots=True)
class VoteProgress:
    """The votes so far on a call that takes more than one approval or rejection."""

    approved: tuple[str, ...]  # Slack user ids, in order
    rejected: tuple[str, ...]
    approvals_needed: int  # more people in the open stage
    stage: int = 1  # number of the open stage, from 1
    stages: int = 1
    rejections_to_end: int = 1  # number of rejections that end it
    missing: tuple[MissingVotes, ...] = ()  # whose votes, if the stages have no order
    stand_ins: Mapping[str, str] = field(default_factory=dict)  # delegates by the person voted for
    signers: frozenset[str] = frozenset()  # people whose votes are signed by passkey


@dataclass(frozen=True, slots=True)
class RunWithoutApproval:
    """Who ran a call without approval, and who has looked at it since."""

    person: str  # Slack user id
    reason: str  # their words
    looked_at_by: str = ""  # Slack user id; "" for nobody yet
    objection: str = ""  # what that person found wrong, in their words


@dataclass(frozen=True, slots=True)
class CallView:
    """One call of a plan, with all that its reader may need.

    It is made in full for those who decide; `bot.cards.review_dialog` derives what others may read.
    """

    id: str
    revision: int
    title: str  # "Refund an order"
    effect: str  # "Refund 40.00 EUR of order 1042"
    does: str  # read | write | destructive
    status: CallStatus
    values: tuple[ArgumentValue, ...]
    deadline: datetime | None = None
    starts_at: datetime | None = None  # if it is approved and waits for that time
    run_at: str = ""  # time of day at which it starts once approved; "" for at once
    preview: str = ""  # plain text from the tool
    # names of the pieces of which the card's readers see less than those who decide
    masked_pieces: tuple[str, ...] = ()
    has_more_rows: bool = False  # the preview shows only some of its rows; all can be sent
    agent_reason: str = ""  # in the words of whoever proposed it
    by_agent: bool = True  # the agent proposed it, and can make another plan
    agent: str = "The agent"  # or a sub-agent or a program; "" for the requester
    delegation_lines: tuple[str, ...] = ()  # delegated tasks that led to it, a line each
    program_note: str = (
        ""  # about the program that asks and executes it itself, in plain text; "" for none
    )
    # that program has claimed it, has not reported, and nobody is asked about it
    was_handed_over: bool = False
    effect_source: EffectSource = EffectSource.BY_AUTHOR  # who says what it does
    edits: tuple[tuple[str, datetime], ...] = ()  # by whom and when; the last while it is pending
    assignee: str = ""  # to whom it is handed over while it is pending, and by whom: Slack user ids
    assigned_by: str = ""
    decided_by: tuple[str, ...] = ()  # Slack user ids; none for the clock, policy, or nobody yet
    stand_ins: Mapping[str, str] = field(default_factory=dict)  # delegates by the person voted for
    signers: frozenset[str] = frozenset()  # people whose votes are signed by passkey
    decided_at: datetime | None = None
    finished_at: datetime | None = None  # if it ran
    # if it starts later than this, people are asked again
    approval_expires_at: datetime | None = None
    note: str = ""  # why: a person's reason, policy's reason, what went wrong
    reported_by: str = ""  # who said how it ended, where nothing else is known of it
    has_form: bool = True  # people can ask for it again with a form
    failed_midway: bool = False  # it failed after it had begun
    # neither its outcome nor its error is a sentence of the tool's own
    needs_quotation: bool = False
    result: str = ""  # the first line of the text that the tool returned
    outcome: str = ""  # its outcome, in the tool's own words for people
    # approvers who gave a reason in their own words, and those words
    remarks: tuple[tuple[str, str], ...] = ()
    without_approval: RunWithoutApproval | None = None
    is_to_be_looked_at: bool = False  # it ran without approval, and nobody has looked at it yet
    may_break_glass: bool = False  # the policy lets somebody run it without approval
    editable: bool = True
    progress: VoteProgress | None = None  # if it is pending and one approval is not enough
    needs_approval_reason: bool = False  # approving takes a reason
    needs_signature: bool = False  # whoever approves next has to sign
    needs_rejection_reason: bool = False  # rejecting takes a reason
    # the grants that an approver may save with it, in words, in the gate's order
    grant_offers: tuple[str, ...] = ()

    @property
    def target(self) -> CallTarget:
        """The target of the buttons for this call."""
        return CallTarget(self.id, self.revision)


@dataclass(frozen=True, slots=True)
class DelegatedTask:
    """The task of one sub-agent on the way to a call, and who gave it."""

    agent: str  # its tool's title
    by: str  # who asked it: another sub-agent's title, "" for the requester's agent
    what: str  # its tool's effect: "Ask the refund desk: refund order 1042"


@dataclass(frozen=True, slots=True)
class CardView:
    """One card: the calls of one plan that go to the same approvers (or one part of them)."""

    plan_id: str
    revision: int  # of the card, from `storage.calls.compute_card_revision`
    run_id: str
    requester: str
    calls: tuple[CallView, ...]
    approver_users: tuple[str, ...] = ()
    approver_groups: tuple[str, ...] = ()  # user-group ids (S…)
    approver_channel: str = ""  # channel id whose members may decide
    notes: tuple[str, ...] = ()  # what else matters to approvers; mrkdwn of our own words
    # the requester's words: what began the request, and what they wrote last
    requester_messages: tuple[str, ...] = ()
    # the current text of messages that were edited after the agent had read them
    edited_messages: tuple[str, ...] = ()
    # the sub-agents between the requester's agent and the calls
    delegated_tasks: tuple[DelegatedTask, ...] = ()
    origin: str = ""  # permalink of the request when the card is shown elsewhere
    has_undecided_calls: bool = False  # an approved call waits for others of the plan
    # the plan's questions that wait for answers, in messages of their own
    open_question_count: int = 0
    card: int = 0  # the message's number in the outbox, for the buttons of the whole card
    part: int = 1
    parts: int = 1
    client: str = ""  # the program that asks for the requester; "" for none with an API key
    viewers: Mapping[str, datetime] = field(default_factory=dict)  # since when each person looks

    @property
    def target(self) -> CardTarget:
        """The target of the buttons for all of the card."""
        return CardTarget(self.plan_id, self.revision, self.card)
