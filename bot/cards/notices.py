"""The notices that a request's thread gets, and lines on cards about who asks. Pure.

All but the words for programs and for a running tool are mrkdwn. People and times arrive as ids and
datetimes and become mentions and local times; what a person, a tool or the model wrote is quoted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial

from bot.cards import slack_text
from bot.cards.value_changes import shorten_change
from bot.cards.views import ArgumentValue, CallView
from storage.states import CallStatus, CallVerb, RunSource, Surface

MAX_NAMED_APPROVERS = 20  # in Review
MAX_CHANGES, MAX_VALUE_CHARS = 3, 60  # shown of an edit
MAX_VIEWERS = 3  # named of those who have the card's calls open

SHARED_CHANNEL_NOTICE = "👥 This channel is shared with another company: its people can read this."
NO_MODEL_AT_TERMINAL_TEXT = (
    "No model is set up here, so I cannot answer this. Ask with a form in Slack instead."
)
NO_AGENT_HERE_REPLY = (
    "No agent works on this request, so nobody reads this. To ask for something else, mention me; "
    "to stop the request, say “cancel”."
)
NOT_FOR_AGENT_REPLY = (
    "I left this to the people here, while your request is waiting. To ask me something or to "
    "change the request, mention me; to stop it, say “cancel”."
)
OLDEST_MESSAGES_OMITTED_NOTICE = (
    "✂️ This thread is longer than the model can read, and summarizing it failed. I am "
    "continuing without its oldest messages; everything decided here is still known word for word."
)


BREAK_GLASS_NOT_ALLOWED_REPLY = (
    "You can’t run this without approval: the policy lets only some people do that. "
    "“/approvals explain” says who."
)
BREAK_GLASS_REASON_REPLY = (
    "Please say in at least 10 characters why this can’t wait for approval. Nothing was run."
)
OWN_RUN_REPLY = "You ran this yourself, so somebody else has to look at it."
LOOK_NOT_ALLOWED_REPLY = (
    "Only somebody who could have approved this can say that they have looked at it."
)


def run_without_approval_sentence(person: str, reason: str) -> str:
    """Return the sentence that says who ran a call without approval, and why, in mrkdwn."""
    who, why = slack_text.user_mention(person), slack_text.sanitise_for_mrkdwn(reason)
    return f"🚨 Run without approval by {who}: “{why}”."


def look_request_notice(
    effects: Sequence[str],
    who: str,
    _deadline: datetime | None,
    person: str,
    reason: str,
    *,
    is_reminder: bool = False,
) -> str:
    """Return the notice that asks people to look at what `person` runs without approval.

    `who`: mrkdwn of their names; `is_reminder`: they were asked before.
    """
    what, why = slack_text.join_effects(effects), slack_text.sanitise_for_mrkdwn(reason)
    still = "nobody has looked yet at what" if is_reminder else "please look at what"
    chosen = f"{slack_text.user_mention(person)} chose to run without approval (“{why}”)"
    return f"🚨 {who}: {still} {chosen}: {what}. Say so on its card."


def objection_notice(
    effects: Sequence[str], person: str, words: str, runner: str, notified: Iterable[str]
) -> str:
    """Return the notice that `person` says that something is wrong with what `runner` ran."""
    names = ", ".join(slack_text.user_mention(each) for each in notified)
    return (
        f"⚠️ {names}: {slack_text.user_mention(person)} has looked at what "
        f"{slack_text.user_mention(runner)} chose to run without approval, and says that something "
        f"is wrong: “{slack_text.sanitise_for_mrkdwn(words)}” — {slack_text.join_effects(effects)}"
    )


def delegated_task_line(agent: str, by: str, task: str) -> str:
    """Return the line on a card that says which agent asked a sub-agent for what."""
    asked = slack_text.sanitise_for_mrkdwn(by, 60) if by else "the agent"
    return (
        f"🤖 {asked[:1].upper()}{asked[1:]} asked {slack_text.sanitise_for_mrkdwn(agent, 60)}: "
        f"“{slack_text.sanitise_for_mrkdwn(task)}”"
    )


def through_program_suffix(client: str) -> str:
    """Return the words behind a requester's name that name the program they used; "" for none."""
    return f" through “{slack_text.sanitise_for_mrkdwn(client, 60)}”" if client else ""


def requester_line(requester: str, client: str) -> str:
    """Return the line of a card or dialog that says who asked, and through which program."""
    return f"Asked by {slack_text.user_mention(requester)}{through_program_suffix(client)}"


def describe_asker(source: RunSource, client: str = "", agent: str = "") -> str:
    """Return the name of who asks a question: "the agent", "the program “release”".

    `client`: the server's or the program's name; `agent`: a sub-agent's title.
    """
    if source is RunSource.SERVER:
        return f"the server {slack_text.sanitise_for_mrkdwn(client, 60)}"
    if agent:
        return slack_text.sanitise_for_mrkdwn(agent, 60)
    if source is RunSource.PROGRAM:
        return (
            f"the program “{slack_text.sanitise_for_mrkdwn(client, 60)}”" if client else "a program"
        )
    return "the agent"


def describe_wordless_request_origin(source: RunSource, client: str = "") -> str:
    """Return how a request began if nobody wrote anything, such as by a form; "" otherwise."""
    match source:
        case RunSource.FORM:
            return "Asked with a form"
        case RunSource.PROGRAM:
            return f"Asked by {describe_asker(source, client)}"
    return ""


def asking_server_line(server: str, effect: str) -> str:
    """Return the line on a question that says which MCP server asks, and what for."""
    return (
        f"🔌 It needs this to continue with: “{slack_text.sanitise_for_mrkdwn(effect)}”. "
        f"{slack_text.sanitise_for_mrkdwn(server, 60)} gets your answer."
    )


def asking_program_line(client: str) -> str:
    """Return the line on a card that says which program asks and will run the call itself."""
    program = describe_asker(RunSource.PROGRAM, client)
    return f"⚙️ Requested by {program}, which runs this once approved."


def away_approvers_note(people: Sequence[tuple[str, datetime | None]]) -> str:
    """Return the small print that says which approvers are away, and until when if known."""
    if len(people) == 1:
        [(person, until)] = people
        return f"🌴 {slack_text.user_mention(person)} is away" + (
            f" until {slack_text.format_local_time(until)}" if until else ""
        )
    *names, last = [
        slack_text.user_mention(person)
        + (f" (until {slack_text.format_local_time(until)})" if until else "")
        for person, until in people
    ]
    return f"🌴 {', '.join(names)} and {last} are away"


def viewers_note(viewers: Mapping[str, datetime]) -> str:
    """Return the note below a card's buttons that says who has it open in a dialog, since when."""
    names = [slack_text.user_mention(person) for person in viewers]
    names[MAX_VIEWERS:] = [f"{len(names) - MAX_VIEWERS} more"] if names[MAX_VIEWERS:] else []
    who = f"{_join_with_and(names)} {'is' if len(viewers) == 1 else 'are'}"
    return f"👀 {who} looking (since {slack_text.format_local_time(min(viewers.values()))})"


def tool_status_text(step: str, title: str, so_far: str = "") -> str:
    """Return the status behind the bot's name while a tool runs: "is looking up order 1042…".

    `step` is "" if the tool does not say; then its title is used. `so_far`: the progress made.
    """
    far = f" ({_format_without_mentions(so_far)})" if so_far else ""
    return (
        f"is {_format_without_mentions(step)}{far}…"
        if step
        else f"is working on it: {_format_without_mentions(title)}{far}…"
    )


def tool_step_label(step: str, title: str) -> str:
    """Return the name of a tool's step in a list of steps: "Looking up order 1042"."""
    name = _format_without_mentions(step or title)
    return name[:1].upper() + name[1:]


def _format_without_mentions(text: str) -> str:
    """Return the text on one line, so that it mentions nobody and links to nothing."""
    line = " ".join(
        slack_text.replace_notifying_mentions(slack_text.show_hidden_characters(text)).split()
    )
    return line.replace("<", "‹").replace(">", "›")


def quoted_request_notice(channel: str, words: str) -> str:
    """Return the private message to a requester that quotes what they asked in a channel."""
    asked = f": “{slack_text.sanitise_for_mrkdwn(words)}”" if words.strip() else ""
    return f"🔒 You asked in {slack_text.channel_mention(channel)}{asked}"


def moved_from_shared_channel_notice(channel: str, words: str) -> str:
    """Return the message, quoting `words`, on why a shared channel's request goes on in private."""
    why = "People of another company can read it there, so I continue here. Only you see this."
    return f"{quoted_request_notice(channel, words)}\n{why}"


def request_continues_in_private_notice(person: str) -> str:
    """Return the notice to a shared channel's thread that the request goes on in private."""
    return (
        "🔒 This channel is shared with another company, so I am continuing with "
        f"{slack_text.user_mention(person)} in a direct message."
    )


def words_typed_elsewhere_line(surface: Surface, person: str, words: str) -> str:
    """Return the line that quotes in the thread what a person typed, and says where."""
    where = (
        "From the terminal"
        if surface is Surface.TERMINAL
        else f"{slack_text.user_mention(person)}, elsewhere"
    )
    return f"⌨️ {where}: {slack_text.sanitise_for_mrkdwn(words, 2_000)}"


REQUESTER_LEFT_REASON = "the person who asked is no longer a full member of this workspace"
POLICY_REASON_PREFIX = "policy: "


def card_posted_elsewhere_notice(place: str, link: str = "", *, part: bool = False) -> str:
    """Return the notice that says where a card was posted.

    `place`: a channel id, or "" for direct messages; `part`: the plan has several cards.
    """
    where = slack_text.channel_mention(place) if place else "the approvers, in direct messages"
    seen = (
        f" (<{link.replace('|', '%7C')}|see it>)"
        if link.startswith("https://") and ">" not in link
        else ""
    )
    needs = "Another approver group is reviewing part of this" if part else "This needs a decision"
    return f"{needs}. I have asked {'in ' if place else ''}{where}{seen}."


def approval_saved_notice(until: datetime, uses: int, same: str) -> str:
    """Return the notice of a saved approval: `uses` calls with the `same` values (mrkdwn)."""
    runs = "next one runs" if uses == 1 else f"next {slack_text.spell_number(uses)} run"
    return (
        f"🧷 This approval is saved ({same}): until {slack_text.format_local_time(until)}, the "
        f"{runs} without asking. “/approvals grants” lists all of them."
    )


def calls_withdrawn_line(person: str, effects: Sequence[str]) -> str:
    """Return the one-line notice that the requester has withdrawn calls."""
    return f"↩️ {slack_text.user_mention(person)} withdrew: {slack_text.join_effects(effects)}"


def approvals_void_notice(people: Sequence[str], requester: str, effects: Sequence[str]) -> str:
    """Return the notice to approvers that the request was changed and their approval is void."""
    who = ", ".join(slack_text.user_mention(each) for each in people)
    return (
        f"↩️ {who}: {slack_text.user_mention(requester)} has changed the request, so your "
        f"approval no longer counts: {slack_text.join_effects(effects)}"
    )


def message_unanswered_notice(why: str) -> str:
    """Return the notice that a message got no answer while a card waits; `why` is a sentence."""
    return (
        f"I could not answer that: {slack_text.sanitise_for_mrkdwn(why)} Whatever was "
        "waiting for a decision is still waiting."
    )


def plan_sent_back_line(person: str, feedback: str) -> str:
    """Return the one-line notice that a plan was sent back."""
    return (
        f"↪️ {slack_text.user_mention(person)} sent the plan back: "
        f"“{slack_text.sanitise_for_mrkdwn(feedback)}”. I will make a new one."
    )


def call_decision_line(
    verb: str,
    person: str,
    effects: Sequence[str],
    reason: str = "",
    needed: int = 0,
    requester: str = "",
    delegator: str = "",
) -> str:
    """Return the one-line notice of how a person decided on calls, and why.

    "🚫 @ana rejected: Refund 40.00 EUR of order 1042 — “paid twice”. Asked by @ben." `needed`: how
    many more people have to approve before anything happens. `requester`: whom to mention; "" for
    nobody; `delegator`: for whom the person decided, if not for themselves.
    """
    icon = {"approve": "✅", "reject": "🚫", "edit": "✏️", "cancel": "⏹️"}.get(verb, "•")
    why = f" — “{slack_text.sanitise_for_mrkdwn(reason)}”" if reason.strip() else ""
    more = f" ({needed} more {'approval' if needed == 1 else 'approvals'} needed)" if needed else ""
    decider = (
        slack_text.decider_mention(delegator, {delegator: person}) + ","
        if delegator
        else slack_text.user_mention(person)
    )
    done = f"{slack_text.format_past_tense(verb)}: {slack_text.join_effects(effects)}"
    sentence = f"{icon} {decider} {done}{why}{more}"
    return f"{sentence}. {_asked_by_text(requester)}." if requester else sentence


def call_edited_line(editor: str, call: CallView, requester: str) -> str:
    """Return the notice that a call was edited: by whom, what changed, who had asked.

    "✏️ @ana edited: Refund 30.00 EUR (Amount: 40.00 → 30.00). Asked by @ben." `call`: as everybody
    who sees its card may read it.
    """
    changes = [_format_change(each) for each in call.values if each.previous_text is not None]
    more = len(changes) - MAX_CHANGES
    shown = "; ".join(changes[:MAX_CHANGES]) + (f"; and {more} more" if more > 0 else "")
    said = call_decision_line(CallVerb.EDIT, editor, [call.effect])
    return f"{said}{f' ({shown})' if shown else ''}. {_asked_by_text(requester)}."


def _format_change(value: ArgumentValue) -> str:
    clean = partial(slack_text.sanitise_for_mrkdwn, limit=MAX_VALUE_CHARS)
    old, new = shorten_change(value.previous_text or "", value.text, MAX_VALUE_CHARS)
    old = slack_text.join_mentions(value.previous_mentions, 5) or clean(old)
    new = slack_text.join_mentions(value.mentions, 5) or clean(new)
    return f"{clean(value.label)}: {old} → {new}"


def _asked_by_text(requester: str) -> str:
    return f"Asked by {slack_text.user_mention(requester)}"


def call_outcome_line(
    status: CallStatus,
    what: str,
    *,
    why: str = "",
    handed_on: bool = False,
    midway: bool = False,
    saved_by: str = "",
    unapproved: str = "",
) -> str:
    """Return the mrkdwn sentence that tells a thread how a call ended.

    "✅ Refunded 30.00 EUR of order 1042, 59.90 left." `what`: its tool's sentence, or the effect;
    `why`: what went wrong; `handed_on`: the program that runs the call has not said how it went,
    and nobody is asked; `midway`: the call failed once it had begun; `saved_by`: the person whose
    saved approval it ran under, so that nobody was asked; `unapproved`: the sentence that says who
    ran it without approval.
    """
    start = {
        CallStatus.FAILED: "❌ It failed: ",
        CallStatus.UNKNOWN: "❓ Outcome unknown (started, never confirmed): ",
        CallStatus.CANCELLED: "⏹️ Not run: ",
        CallStatus.INVALIDATED: "⏹️ Not run: ",
    }.get(status, "✅ ")
    start = "📤 Handed over: " if handed_on else start
    failed = f" — “{slack_text.sanitise_for_mrkdwn(why)}”" if why.strip() else ""
    next_step = (
        " Please check, then record what happened on the card."
        if status is CallStatus.UNKNOWN
        else ""
    )
    next_step = " The program that asked has not said how it went." if handed_on else next_step
    next_step = f" {slack_text.FAILED_MIDWAY_TEXT}" if midway else next_step
    saved = (
        f" Nobody was asked: {slack_text.user_mention(saved_by)} had saved the approval."
        if saved_by
        else ""
    )
    effect = slack_text.sanitise_for_mrkdwn(what).rstrip(".")
    return f"{start}{effect}{failed}.{next_step}{saved}{f' {unapproved}' if unapproved else ''}"


def asked_by_sentence(requester: str, approvers: Sequence[str] = ()) -> str:
    """Return the sentence that names who asked for a call and who approved it.

    "Asked by @ben, approved by @ana and @cleo."
    """
    names = _join_with_and([slack_text.user_mention(each) for each in approvers])
    return f"{_asked_by_text(requester)}{f', approved by {names}' if names else ''}."


def _join_with_and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def silent_approvers_suffix(names: Sequence[str]) -> str:
    """Return the words after approvers' names: who else may decide, without being notified."""
    return f", also {_join_with_and(names)}, not notified" if names else ""


def review_approvers_line(names: Sequence[str], silent: Sequence[str]) -> str:
    """Return the line in Review that says who may decide: user ids, channel ids and "@handles"."""
    told, also = (
        [
            slack_text.sanitise_for_mrkdwn(each, 80)
            if each[0] == "@"
            else f"members of {slack_text.channel_mention(each)}"
            if each[0] in "CDG"
            else slack_text.user_mention(each)
            for each in some
        ]
        for some in (names, silent)
    )
    more = [f"{len(told) - MAX_NAMED_APPROVERS} more"] if len(told) > MAX_NAMED_APPROVERS else []
    named = ", ".join([*told[:MAX_NAMED_APPROVERS], *more])
    return f"Approvers: {named}{silent_approvers_suffix(also[:MAX_NAMED_APPROVERS])}"


def decision_reminder_notice(effects: Sequence[str], who: str, deadline: datetime | None) -> str:
    """Return the reminder to approvers who have not decided yet; `who` is mrkdwn of their names."""
    by = f" by {slack_text.format_time_with_countdown(deadline)}" if deadline else ""
    return f"⏰ {who}: this is still waiting for a decision{by}: {slack_text.join_effects(effects)}"


def next_stage_notice(
    effects: Sequence[str],
    who: str,
    deadline: datetime | None,
    approved: Sequence[tuple[str, str]] = (),
    stand_ins: Mapping[str, str] | None = None,
) -> str:
    """Return the notice that a stage is approved and whose turn it is in the next one.

    "✅ @ana approved. ➡️ @cleo: your approval is needed next, by 16:00: Pay 40 EUR" `approved`: each
    approver, with their words.
    """
    by = f", by {slack_text.format_time_with_countdown(deadline)}" if deadline else ""
    names = [_describe_approver_with_words(each, stand_ins or {}) for each in approved]
    before = f"✅ {_join_with_and(names)} approved. " if names else ""
    return f"{before}➡️ {who}: your approval is needed next{by}: {slack_text.join_effects(effects)}"


def _describe_approver_with_words(approver: tuple[str, str], stand_ins: Mapping[str, str]) -> str:
    person, words = approver
    return slack_text.decider_mention(person, stand_ins) + (
        f" (“{slack_text.sanitise_for_mrkdwn(words)}”)" if words.strip() else ""
    )


def further_approvers_may_decide_notice(
    effects: Sequence[str], who: str, deadline: datetime | None
) -> str:
    """Return the notice to further approvers that they may decide, too, as nobody has yet."""
    by = f", by {slack_text.format_time_with_countdown(deadline)}" if deadline else ""
    what = slack_text.join_effects(effects)
    return f"⏫ {who}: nobody has decided this yet, so now you can too{by}: {what}"


def nobody_decided_in_time_line(
    effects: Sequence[str], deadline: datetime | None, requester: str
) -> str:
    """Return the one-line notice that nobody decided these calls in time."""
    by = f" by {slack_text.format_local_time(deadline)}" if deadline else " in time"
    what = f"⏰ Nobody answered{by}, so this will not happen: {slack_text.join_effects(effects)}"
    return f"{what}. {_asked_by_text(requester)}."


def request_cancelled_line(person: str, client: str = "") -> str:
    """Return the one-line notice that a person, or a program of theirs, cancelled the request."""
    who = f"{slack_text.user_mention(person)}{through_program_suffix(client)}"
    what = f"{who} cancelled the request" if person else "The request was cancelled"
    return f"⏹️ {what}. Nothing more will run."


def requester_left_notice(person: str) -> str:
    """Return the notice that a request ends because its requester has left or become a guest."""
    return (
        f"⏹️ {slack_text.user_mention(person)}, who asked for this, is no longer a full member of "
        "this workspace, so the request is cancelled. Nothing more of it will run."
    )


def run_failed_notice(error: str) -> str:
    """Return the notice that the run cannot go on; it is posted with a Retry button."""
    return (
        f"I could not continue: {slack_text.sanitise_for_mrkdwn(error)}\n"
        "Nothing is lost: Retry continues from here, and nothing runs twice."
    )


def call_refused_before_asking_notice(title: str, why: str) -> str:
    """Return the notice that a call was refused before anybody was asked; `title` is its tool's."""
    begins = f"I did not ask anybody about “{slack_text.sanitise_for_mrkdwn(title, 80)}”"
    if why.startswith(POLICY_REASON_PREFIX):
        return (
            f"{begins}, because the policy says no: "
            f"{slack_text.sanitise_for_mrkdwn(why.removeprefix(POLICY_REASON_PREFIX)).rstrip('.')}."
        )
    return f"{begins}: {slack_text.sanitise_for_mrkdwn(why).rstrip('.')}."
