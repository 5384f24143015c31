"""Messages other than cards: answers and their footers, notices, tables, greeting, help. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.cards import block_kit, slack_text
from bot.cards.action_names import Action, BlockRole
from bot.cards.button_codec import ModelAnswerRating, RunTarget, build_block_id, encode_button_value
from bot.cards.views import strip_invisible_characters
from countersign.durations import format_count
from storage.states import CallStatus

MAX_EFFECTS_PER_STATUS = 3  # described by their sentences; the others are counted
MAX_EFFECT_CHARS = 160
MAX_CELL_CHARS = 80
MAX_TABLE_CHARS = 9_500  # of all cells together; Slack's limit is 10,000


RECORD_CONTRADICTION_NOTICE = "⚠️ The text above does not match the record."


@dataclass(frozen=True, slots=True)
class ModelAnswerFooter:
    """The bot's own words below a model's answer, outside the answer's frame."""

    outcomes: Sequence[str] = ()  # in mrkdwn, for calls whose outcomes are first reported here
    requester: str = ""  # user to notify; "" for nobody
    record: str = ""  # outcomes of all calls, if the model's text contradicts the record
    note: str = ""  # why the answer is incomplete
    ours: bool = False  # the text above is the bot's own as well, in mrkdwn

    def render_blocks(self, run_id: str, *, last: bool) -> list[block_kit.Json]:
        """Build the footer; `last`: this is the request's last answer, so add feedback buttons."""
        blocks: list[block_kit.Json] = []
        if self.note:
            blocks.append(
                block_kit.context_block(
                    build_block_id(BlockRole.CUT, run_id), [block_kit.plain_text(f"✂️ {self.note}")]
                )
            )
        to = [slack_text.user_mention(self.requester)] if self.requester else []
        if self.record:
            says = [block_kit.text_leaf(f"{RECORD_CONTRADICTION_NOTICE} {self.record}", bold=True)]
            mention = [*_build_leaves(f"{to[0]} ")] if to else []
            blocks.append(
                block_kit.rich_text_block(
                    build_block_id(BlockRole.RECORD, run_id),
                    [block_kit.rich_text_line(*mention, *says)],
                )
            )
        elif self.outcomes:
            separator = " " if len(self.outcomes) == 1 else "\n"
            sentence = separator.join([*to, *self.outcomes])
            blocks.append(
                block_kit.rich_text_block(
                    build_block_id(BlockRole.RECORD, run_id),
                    [block_kit.rich_text_line(*_build_leaves(sentence))],
                )
            )
        return [*blocks, render_feedback_buttons(run_id)] if last else blocks


EMPTY_FOOTER = ModelAnswerFooter()


def render_model_answer_part(
    text: str, run_id: str, last: bool, below: ModelAnswerFooter = EMPTY_FOOTER
) -> list[block_kit.Json]:
    """Build the blocks of one part of a model's answer: framed text, then footer.

    Parts come from `block_kit.split_into_message_parts`. With `below.ours` the text is a sentence
    of the bot's own and is drawn without a frame.
    """
    frame = [{"type": "markdown", "text": block_kit.format_as_blockquote(text)}]
    above = (render_notice_sentence(text) if below.ours else frame) if text.strip() else []
    return [*above, *below.render_blocks(run_id, last=last)]


_FAILED_MIDWAY_TEXT = "failed after it had begun, so part of it may have happened"
_TEXT_BY_STATUS = {
    CallStatus.SUCCEEDED: "done",
    CallStatus.FAILED: "failed",
    CallStatus.UNKNOWN: "not known whether it happened",
    CallStatus.REJECTED: "rejected",
    CallStatus.ANSWERED: "answered",
    CallStatus.EXPIRED: "nobody answered in time",
    CallStatus.CANCELLED: "not run",
    CallStatus.INVALIDATED: "not run",
    CallStatus.REFUSED: "nobody was asked",
    CallStatus.PENDING: "still waiting",
    CallStatus.APPROVED: "still waiting",
    CallStatus.RUNNING: "still running",
    CallStatus.ENTRUSTED: "a sub-agent is still working on it",
    CallStatus.SUPERSEDED: "replaced",
}
_ORDERED_STATUS_TEXTS = (  # in the order of the record line
    _TEXT_BY_STATUS[CallStatus.SUCCEEDED],
    _TEXT_BY_STATUS[CallStatus.FAILED],
    _FAILED_MIDWAY_TEXT,
    *(
        word
        for status, word in _TEXT_BY_STATUS.items()
        if status not in (CallStatus.SUCCEEDED, CallStatus.FAILED)
    ),
)
_SHORT_STATUS_TEXTS = {
    _TEXT_BY_STATUS[CallStatus.UNKNOWN]: "unknown",
    _TEXT_BY_STATUS[CallStatus.EXPIRED]: "expired",
    _FAILED_MIDWAY_TEXT: "failed midway",
}
# not started, or known to have changed nothing
CERTAINLY_NOT_DONE_STATUSES = frozenset(
    {
        CallStatus.PENDING,
        CallStatus.APPROVED,
        CallStatus.REFUSED,
        CallStatus.REJECTED,
        CallStatus.ANSWERED,
        CallStatus.EXPIRED,
        CallStatus.CANCELLED,
        CallStatus.SUPERSEDED,
        CallStatus.INVALIDATED,
        CallStatus.FAILED,
    }
)


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What became of one call, for the record line below an answer."""

    status: CallStatus
    effect: str  # its sentence; not needed if it was reported
    was_reported: bool = False  # a separate message in the thread says so already
    failed_midway: bool = False  # it failed after it had begun

    @property
    def is_certainly_not_done(self) -> bool:
        """Whether it is certain that nothing of the call happened."""
        return self.status in CERTAINLY_NOT_DONE_STATUSES and not self.failed_midway

    @property
    def is_done(self) -> bool:
        """Whether it is certain that the call was carried out."""
        return self.status is CallStatus.SUCCEEDED

    @property
    def status_words(self) -> str:
        """The words for the state of the call, such as "done" or "not run"."""
        return _FAILED_MIDWAY_TEXT if self.failed_midway else _TEXT_BY_STATUS[self.status]


def build_call_outcomes_line(ended: Sequence[CallOutcome]) -> str:
    """Return one plain-text line for below an answer: what became of a run's calls.

    "On record: one done; not run: Cancel order 1043." Calls that a line in the thread has reported
    before are only counted. The line is made from database rows, whatever the model says.
    """
    if not ended:
        return "On record: nothing was changed."
    by_word: dict[str, list[CallOutcome]] = {word: [] for word in _ORDERED_STATUS_TEXTS}
    for each in ended:
        by_word[each.status_words].append(each)
    nothing = ["nothing was done"] if all(each.is_certainly_not_done for each in ended) else []
    if len(ended) == 1 and (ended[0].was_reported or ended[0].status is CallStatus.REFUSED):
        return f"On record: {'; '.join([*nothing, ended[0].status_words])}."
    counts, named = [], []
    for word, outcomes in by_word.items():
        effects = [
            slack_text.sanitise_as_plain_text(each.effect, MAX_EFFECT_CHARS)
            for each in outcomes
            if not each.was_reported
        ]
        if count := len(outcomes) - len(effects):
            counts.append(f"{slack_text.spell_number(count)} {_SHORT_STATUS_TEXTS.get(word, word)}")
        if effects:
            named.append(f"{word}: {_join_first_effects(effects)}")
    return f"On record: {'; '.join([*nothing, *filter(None, [', '.join(counts)]), *named])}."


def _join_first_effects(effects: Sequence[str]) -> str:
    more = len(effects) - MAX_EFFECTS_PER_STATUS
    return ", ".join(effects[:MAX_EFFECTS_PER_STATUS]) + (f" and {more} more" if more > 0 else "")


_CUT_OFF_TEXT_BY_REASON = {
    "max_output_tokens": "it reached the model's length limit",
    "content_filter": "the model's content filter stopped it",
}


def has_visible_text(text: str) -> bool:
    """Return whether a model's text contains anything that a person can see."""
    return bool(strip_invisible_characters(text).strip())


def incomplete_answer_sentence(text: str, cut: str = "") -> str:
    """Return a sentence about an answer that is empty or was cut off; "" for a complete one.

    `cut`: see `bot.agent.turn.Reply`.
    """
    why = _CUT_OFF_TEXT_BY_REASON.get(cut, "the model stopped early") if cut else ""
    if not has_visible_text(text):
        return f"The model gave no answer{f': {why}' if why else ''}."
    return f"The answer is cut off here: {why}." if why else ""


def render_feedback_buttons(run_id: str) -> block_kit.Json:
    """Build the thumbs-up and thumbs-down buttons for a run's answer."""
    good, bad = (
        encode_button_value(ModelAnswerRating(run_id, good=each)) for each in (True, False)
    )
    return {
        "type": "context_actions",
        "block_id": build_block_id(BlockRole.FEEDBACK, run_id),
        "elements": [
            {
                "type": "feedback_buttons",
                "action_id": Action.FEEDBACK,
                "positive_button": {"text": block_kit.plain_text("Good answer"), "value": good},
                "negative_button": {"text": block_kit.plain_text("Bad answer"), "value": bad},
            }
        ],
    }


_MRKDWN_TOKEN_PATTERN = re.compile(
    r"<@(?P<user_id>[UW][A-Z0-9]+)>|<!subteam\^(?P<usergroup_id>S[A-Z0-9]+)>|<#(?P<channel_id>[CG][A-Z0-9]+)>"
    r"|<!date\^(?P<timestamp>\d+)\^(?P<format>[^|>]+)\|(?P<fallback>[^>]*)>|<(?P<url>https://[^|>]+)\|(?P<text>[^>]+)>"
)
_LEAF_TYPE_BY_GROUP = {
    "user_id": "user",
    "usergroup_id": "usergroup",
    "channel_id": "channel",
    "timestamp": "date",
    "url": "link",
}


def render_notice_sentence(sentence: str) -> list[block_kit.Json]:
    """Build a block of one of the bot's mrkdwn sentences; its mentions, times and links work.

    All else is literal: no `*`, back-tick or address in an effect or a reason is formatted, as it
    would be in a mrkdwn text.
    """
    return [block_kit.rich_text_block("n", [block_kit.rich_text_line(*_build_leaves(sentence))])]


def _build_leaves(sentence: str) -> list[block_kit.Json]:
    """Return the rich-text elements of a mrkdwn sentence: its mentions, times, links and text."""
    leaves: list[block_kit.Json] = []
    end = 0
    for match in _MRKDWN_TOKEN_PATTERN.finditer(sentence):
        if before := sentence[end : match.start()]:
            leaves.append(block_kit.text_leaf(slack_text.unescape_mrkdwn(before)))
        token_fields: block_kit.Json = {
            name: value for name, value in match.groupdict().items() if value is not None
        }
        kind = _LEAF_TYPE_BY_GROUP[
            next(name for name in _LEAF_TYPE_BY_GROUP if name in token_fields)
        ]
        if kind == "date":
            token_fields["timestamp"] = int(token_fields["timestamp"])
        leaves.append(
            {
                "type": kind,
                **{
                    name: slack_text.unescape_mrkdwn(v) if name == "url" else v
                    for name, v in token_fields.items()
                },
            }
        )
        end = match.end()
    if rest := sentence[end:]:
        leaves.append(block_kit.text_leaf(slack_text.unescape_mrkdwn(rest)))
    return leaves


def render_result_table(body: Mapping[str, Any]) -> list[block_kit.Json]:
    """Build a title line and a table of the first rows that a tool found.

    The line says how many rows there are and whether a file has all of them. `body`: see
    `bot.runs.results`.
    """
    total, row_count, columns = body["total"], len(body["rows"]), len(body["columns"])
    parts = [
        format_count(total, "row"),
        *(["and there are more"] if body["more"] else []),
    ]
    if row_count < total:
        parts.append(f"the first {row_count} here")
    if columns < body["width"]:
        parts.append(f"{columns} of {body['width']} columns")
    if body["file"]:
        parts.append("all of it in the file below")
    heading = [
        block_kit.text_leaf(slack_text.show_hidden_characters(body["title"]), bold=True),
        block_kit.text_leaf(" · " + ", ".join(parts)),
    ]
    cells = [
        [{"type": "raw_text", "text": _shorten_cell_text(text)} for text in row]
        for row in (body["columns"], *body["rows"])
    ]
    table = {
        "type": "table",
        "block_id": "t",
        "rows": cells,
        "column_settings": [{"is_wrapped": True}] * columns,
    }
    return [block_kit.rich_text_block("h", [block_kit.rich_text_line(*heading)]), table]


def count_rows_fitting_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Return how many of the rows fit into one Slack table with these columns."""
    used = 0
    for number, row in enumerate((columns, *rows)):
        used += sum(slack_text.count_slack_characters(_shorten_cell_text(text)) for text in row)
        if used > MAX_TABLE_CHARS:
            return max(number - 1, 0)
    return len(rows)


def is_short_enough_for_cell(text: str) -> bool:
    """Return whether one cell of a table shows this text in full."""
    return len(slack_text.show_hidden_characters(text)) <= MAX_CELL_CHARS


def _shorten_cell_text(text: str) -> str:
    whole = slack_text.show_hidden_characters(text) or "(empty)"
    return whole if is_short_enough_for_cell(text) else whole[: MAX_CELL_CHARS - 1] + "…"


def render_prose_sections(text: str) -> list[block_kit.Json]:
    """Build sections of the bot's own prose (the greeting, help), which is mrkdwn."""
    parts: list[str] = [""]
    for each in text.split("\n"):
        if len(parts[-1]) + len(each) > 2_800:
            parts.append("")
        parts[-1] += each + "\n"
    return [
        block_kit.section_block(f"p:{number}", block_kit.mrkdwn(part.strip()))
        for number, part in enumerate(parts)
        if part.strip()
    ]


def render_retry_message(text: str, run_id: str) -> list[block_kit.Json]:
    """Build the message that says why a run cannot go on (`text`), with a Retry button."""
    retry = block_kit.button(Action.RETRY, "Retry", RunTarget(run_id))
    return [
        *render_notice_sentence(text),
        block_kit.actions_block(build_block_id(BlockRole.RETRY, run_id), [retry]),
    ]


def request_edited_notice(person: str, text: str) -> str:
    """Return the mrkdwn notice that a request was edited after it was asked, with the new text."""
    return (
        f"✏️ {slack_text.user_mention(person)} edited the request after this was asked, which "
        f"changes nothing here. It now reads: “{slack_text.sanitise_for_mrkdwn(text)}”"
    )


def nobody_can_approve_notice(requester: str, effect: str) -> str:
    """Return the notice to a requester that none of a call's approvers is left."""
    return (
        f"⚠️ {slack_text.user_mention(requester)}: at the moment nobody can approve this: "
        f"{slack_text.join_effects([effect])}"
    )


REQUEST_DELETED_NOTICE = (
    "⏹️ The message was deleted, so the request is withdrawn. Nothing more will run."
)


_HEADING_BY_EFFECT = {
    "read": "🔎 *These look something up*",
    "write": "✋ *These change something*",
    "destructive": "⚠️ *These cannot be undone*",
    "": "⚠️ *It is not known whether these can be undone*",
}


FORM = "`/approvals request`"
HOW_APPROVAL_WORKS_TEXT = (
    "I look things up right away. Anything that changes something goes to its approvers first, "
    "and runs only once they approve it."
)


def greeting_text(
    bot_user: str, tools: Sequence[tuple[str, str]] = (), *, has_model: bool = True
) -> str:
    """Return the greeting for a new person, in mrkdwn: what the bot is and how to begin.

    With a model it says that this is an AI; without one it points to forms.
    """
    if not has_model:
        return (
            f"👋 Hello, I am <@{bot_user}>. Ask for what you need with a form: {FORM}, in any "
            f"channel. {HOW_APPROVAL_WORKS_TEXT}"
        )
    lines = [
        f"👋 Hello, I am <@{bot_user}>, an AI assistant. Tell me what you need, here or by "
        "mentioning me in a channel.",
        HOW_APPROVAL_WORKS_TEXT,
    ]
    if tools:
        lines.append(
            f"For example, I can: {_join_example_titles(tools)}. Say `help` for the full list."
        )
    lines.append("I can be wrong, so please check what matters.")
    return "\n".join(lines)


def _join_example_titles(tools: Sequence[tuple[str, str]]) -> str:
    names = [_escape_title(title) for title, _ in tools[:4]]
    return ", ".join(name[:1].lower() + name[1:] for name in names)


def _escape_title(title: str) -> str:
    return slack_text.escape_mrkdwn(slack_text.show_hidden_characters(" ".join(title.split())))


def help_text(tools: Sequence[tuple[str, str]], *, has_model: bool = True) -> str:
    """Return the help text in mrkdwn: everything people can ask for, by effect class.

    `tools`: title and effect class of each; the class is read, write, destructive, or "" if
    unknown.
    """
    lines = [
        "I am an AI assistant. Ask in your own words; mention me in a channel, or write to me "
        f"directly. Or fill in a form: {FORM}."
        if has_model
        else f"Ask with a form: {FORM}."
    ]
    for effect, heading in _HEADING_BY_EFFECT.items():
        if titles := [_escape_title(title) for title, does in tools if does == effect]:
            lines += ["", heading, *(f"• {title}" for title in titles)]
    end = (
        "Say `cancel` in our thread to stop a request. Only the buttons decide: a “yes” "
        "in a message approves nothing. `/approvals` shows what is waiting and what was "
        "decided, and lets you delegate your approvals."
    )
    return "\n".join([*lines, "", end])


# Notices for people whose organisation, or whose account in it, has changed.

WORKSPACE_LEFT_REASON = "Countersign was removed from the workspace where this was asked"
WORKSPACE_LEFT_NOTICE = (
    "⏹️ Countersign was removed from the workspace where this was asked, so the request is "
    "cancelled. Nothing more of it will run."
)
TOOL_CHANGED_REPLY = (
    "This can no longer be approved: its tool has changed since it was asked, or is gone. So it is "
    "called off. Ask again if it is still needed."
)
RERUN_NEEDS_REASON_REPLY = (
    "Approving this takes a reason, so one click cannot run it again. Say whether it "
    "happened; if it did not, ask for it again."
)
ACCOUNT_REPLACED_REPLY = (
    "Somebody who approved or edited this, or for whom it was approved, now has another Slack "
    "account, so it cannot be approved. Reject it and ask again."
)
