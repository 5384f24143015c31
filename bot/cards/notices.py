"""Every sentence that a thread is told about a request. Pure: mrkdwn out.

People and times arrive as ids and datetimes and become mentions and local times; what a person, a
tool or the model wrote is quoted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bot.cards.sentence_words import MIDWAY, cite, effect_list, past
from bot.cards.slack_text import (
    channel_mention,
    decider_mention,
    format_deadline,
    mention,
    neutral_markdown,
    spell_number,
    visible,
    when,
)
from storage.states import CallStatus, RunSource, Surface

# Every sentence about who asks beside people: sub-agents, programs, servers. Pure: mrkdwn out.


def delegated_task_line(agent: str, by: str, what: str) -> str:
    """Tell who decides that a sub-agent proposes this, who asked it, and for what."""
    asked = cite(by, 60) if by else "the agent"
    return f"🤖 {asked[:1].upper()}{asked[1:]} asked {cite(agent, 60)}: “{cite(what)}”"


def through(client: str) -> str:
    """Tell by which program somebody asked, behind their name; "" where they did so themselves."""
    return f" through “{cite(client, 60)}”" if client else ""


def who_asks(source: RunSource, client: str = "", agent: str = "") -> str:
    """Name whoever asks a person: "the agent", "the server depot", "the program “release”".

    `client`: the server's or the program's name; `agent`: a sub-agent's title.
    """
    if source is RunSource.SERVER:
        return f"the server {cite(client, 60)}"
    if agent:
        return cite(agent, 60)
    if source is RunSource.PROGRAM:
        return f"the program “{cite(client, 60)}”" if client else "a program"
    return "the agent"


def asked_without_words(source: RunSource, client: str = "") -> str:
    """Say how a request began in which nobody wrote anything; "" where it began with words."""
    match source:
        case RunSource.FORM:
            return "Asked with a form"
        case RunSource.PROGRAM:
            return f"Asked by {who_asks(source, client)}"
    return ""


def server_line(server: str, effect: str) -> str:
    """Tell who is asked that a server asks, for what, and who is given the answer."""
    return (
        f"🔌 It asks this to go on with: “{cite(effect)}”. {cite(server, 60)} gets what you answer."
    )


def program_line(client: str) -> str:
    """Tell who decides that a program asks, whose words these are, and who does it then."""
    program = who_asks(RunSource.PROGRAM, client)
    return f"⚙️ Requested by {program}, which runs this once approved."


# Every sentence about people who are away. Pure: mrkdwn out.


def away_note(people: Sequence[tuple[str, datetime | None]]) -> str:
    """Say in a card's small print who of those that decide is away, and until when if they say."""
    if len(people) == 1:
        [(person, until)] = people
        return f"🌴 {mention(person)} is away" + (f" until {when(until)}" if until else "")
    *names, last = [
        mention(person) + (f" (until {when(until)})" if until else "") for person, until in people
    ]
    return f"🌴 {', '.join(names)} and {last} are away"


# What a tool does, as Slack shows it while it runs. Pure: plain text out, no markup at all.


def doing_now(doing: str, title: str, so_far: str = "") -> str:
    """Say behind the bot's name what it does: "is looking up order 1042…".

    `doing` is "" where the tool does not say; then its title stands there. `so_far`: how far it is.
    """
    far = f" ({_bare(so_far)})" if so_far else ""
    return f"is {_bare(doing)}{far}…" if doing else f"is working on it: {_bare(title)}{far}…"


def step_title(doing: str, title: str) -> str:
    """Name a step in a list of them: "Looking up order 1042"."""
    name = _bare(doing or title)
    return name[:1].upper() + name[1:]


def _bare(text: str) -> str:
    """Return one line that mentions nobody and links to nothing."""
    line = " ".join(neutral_markdown(visible(text)).split())
    return line.replace("<", "‹").replace(">", "›")


# Every sentence about channels that are shared with another company. Pure: mrkdwn out.


def asked_there(channel: str, words: str) -> str:
    """Tell a requester in private what they asked elsewhere, which goes on here too."""
    asked = f": “{cite(words)}”" if words.strip() else ""
    return f"🔒 You asked in {channel_mention(channel)}{asked}"


def goes_on_here(channel: str, words: str) -> str:
    """Tell a requester in private why their request goes on here; `words` are theirs."""
    why = "People of another company read along there, so I go on here. Only you see this."
    return f"{asked_there(channel, words)}\n{why}"


def goes_on_in_private(person: str) -> str:
    """Tell a shared channel's thread that the request goes on elsewhere."""
    return (
        f"🔒 This channel is shared with another company, so I go on with {mention(person)} in a "
        "direct message."
    )


def outsiders_read_along() -> str:
    """Tell the thread of a request in a shared channel where that is allowed."""
    return "👥 This channel is shared with another company: its people read along here."


# Every sentence about what is asked at the terminal. Pure: mrkdwn out.


def typed_there(surface: Surface, person: str, words: str) -> str:
    """Tell the thread what somebody has typed, and where."""
    where = "From the terminal" if surface is Surface.TERMINAL else f"{mention(person)}, elsewhere"
    return f"⌨️ {where}: {cite(words, 2_000)}"


def no_model_there() -> str:
    """Tell who types at the terminal that no agent hears it."""
    return "No model is set up here, so nobody hears this. Ask with a form in Slack instead."


def members_only_there() -> str:
    """Tell who types at the terminal that Slack does not know them as a member."""
    return "I take requests from full members of this workspace only."


# What programs are told in words of what they asked for. Pure: plain text out.

C = CallStatus
_NOT_DONE = {
    C.REJECTED: "It was rejected",
    C.EXPIRED: "Nobody decided in time",
    C.CANCELLED: "It was taken back",
    C.REFUSED: "It was refused, and nobody was asked",
    C.INVALIDATED: "What would run has changed since",
    C.SUPERSEDED: "Replaced by a newer request",
    C.FAILED: "It did not work",
}


def not_done(status: CallStatus) -> str:
    """Begin to tell a program why what it asked for was not done; "" where it was, or may be."""
    return _NOT_DONE.get(status, "")


WHO_ASKED_HAS_LEFT = "who asked has no active account here anymore"
POLICY = "policy: "  # what a reason begins with that the policy gives


def card_elsewhere(place: str, link: str = "", *, part: bool = False) -> str:
    """Tell the thread where its card went: `place` is a channel id, or "" for direct messages.

    `part`: it is one of several cards of the plan.
    """
    where = channel_mention(place) if place else "the approvers, in direct messages"
    seen = (
        f" (<{link.replace('|', '%7C')}|see it>)"
        if link.startswith("https://") and ">" not in link
        else ""
    )
    needs = "Another approver group is reviewing part of this" if part else "This needs a decision"
    return f"{needs}. I have asked {'in ' if place else ''}{where}{seen}."


def remembered(until: datetime, uses: int, same: str) -> str:
    """Tell the thread that an approval is remembered; `same`: for which values, as mrkdwn."""
    runs = "next one runs" if uses == 1 else f"next {spell_number(uses)} run"
    return (
        f"🧷 This approval is saved ({same}): until {when(until)}, the {runs} without asking. "
        "“/approvals grants” shows all that are saved."
    )


def withdrawn_line(person: str, effects: Sequence[str]) -> str:
    """Tell the thread in one line that the requester has withdrawn a call."""
    return f"↩️ {mention(person)} withdrew: {effect_list(effects)}"


def votes_void(people: Sequence[str], requester: str, effects: Sequence[str]) -> str:
    """Tell those who had approved that the requester wants something else by now."""
    who = ", ".join(mention(each) for each in people)
    return (
        f"↩️ {who}: {mention(requester)} has changed the request, so your approval no longer "
        f"counts: {effect_list(effects)}"
    )


def beginning_left_out() -> str:
    """Tell the thread that the model goes on without what was said in it long ago."""
    return (
        "✂️ This thread is longer than the model can read, and summarizing it failed. I go on "
        "without its oldest messages; all that was decided here is still known word for word."
    )


def unanswered_beside(why: str) -> str:
    """Tell the thread that words beside a waiting card got no answer; `why` is a sentence."""
    return f"I could not answer that: {cite(why)} What waits for a decision still waits."


def sent_back_line(person: str, feedback: str) -> str:
    """Tell the thread in one line that a plan was sent back."""
    return f"↪️ {mention(person)} sent the plan back: “{cite(feedback)}”. I will make a new one."


def decision_line(
    verb: str,
    person: str,
    effects: Sequence[str],
    reason: str = "",
    needed: int = 0,
    requester: str = "",
    giver: str = "",
) -> str:
    """Tell the thread in one line who decided what.

    "🚫 @ana rejected: Refund 40.00 EUR of order 1042 — “paid twice”. Asked by @ben." `needed`: how
    many more people have to approve before anything happens. `requester`: who is to be told; "" for
    nobody; `giver`: by whose right it is, where it is not their own.
    """
    icon = {"approve": "✅", "reject": "🚫", "edit": "✏️", "cancel": "⏹️"}.get(verb, "•")
    why = f" — “{cite(reason)}”" if reason.strip() else ""
    more = f" ({needed} more {'approval' if needed == 1 else 'approvals'} needed)" if needed else ""
    who = decider_mention(giver, {giver: person}) + "," if giver else mention(person)
    what = f"{icon} {who} {past(verb)}: {effect_list(effects)}{why}{more}"
    return f"{what}. {_asked_by(requester)}." if requester else what


def _asked_by(requester: str) -> str:
    return f"Asked by {mention(requester)}"


@dataclass(frozen=True, slots=True)
class CallParticipants:
    """Who had a part in a call that was started, by id."""

    requester: str
    editors: tuple[str, ...]  # told of only where they approved it, too: others were told of before
    approved: tuple[tuple[str, str], ...]  # each approver, and their words ("" for none)
    stand_ins: Mapping[str, str] = field(default_factory=dict)  # who has voted for whom
    remembered: bool = False  # who approved had that remembered, and nobody was asked


def outcome_line(
    status: CallStatus,
    what: str,
    people: CallParticipants | None,
    *,
    why: str = "",
    handed_on: bool = False,
    midway: bool = False,
) -> str:
    """Tell the thread in one line what came of a call that people approved, and who did.

    "✅ Refunded 30.00 EUR of order 1042, 59.90 left. Asked by @ben, approved by @ana." `what`: its
    tool's sentence, or the effect; `people`: None where a later line has them; `why`: what went
    wrong; `handed_on`: the program that runs it has not said how it went, and nobody is asked;
    `midway`: it failed once it had begun.
    """
    start = {
        CallStatus.FAILED: "❌ It failed: ",
        CallStatus.UNKNOWN: "❓ Outcome unknown (started, never confirmed): ",
    }.get(status, "✅ ")
    start = "📤 Handed over: " if handed_on else start
    failed = f" — “{cite(why)}”" if why.strip() else ""
    then = (
        " Please check, then record what happened on the card."
        if status is CallStatus.UNKNOWN
        else ""
    )
    then = " The program that asked has not said how it went." if handed_on else then
    then = f" {MIDWAY}" if midway else then
    return f"{start}{cite(what).rstrip('.')}{failed}.{then}{_parts(people)}"


def _parts(people: CallParticipants | None) -> str:
    if people is None:
        return ""
    if people.remembered:
        by = _and([mention(person) for person, _ in people.approved])
        return f" {_asked_by(people.requester)}, under an approval {by} asked me to remember."
    approvers = [_with_words(each, people.stand_ins) for each in people.approved]
    own = people.editors and [*people.editors] == [person for person, _ in people.approved]
    by = f", {'edited and ' if own else ''}approved by {_and(approvers)}" if approvers else ""
    return f" {_asked_by(people.requester)}{by}."


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def reminder(effects: Sequence[str], who: str, deadline: datetime | None) -> str:
    """Remind the approvers who have not decided yet; `who` is mrkdwn of their names."""
    by = f" by {format_deadline(deadline)}" if deadline else ""
    return f"⏰ {who}: this still waits for a decision{by}: {effect_list(effects)}"


def next_step(
    effects: Sequence[str],
    who: str,
    deadline: datetime | None,
    approved: Sequence[tuple[str, str]] = (),
    stand_ins: Mapping[str, str] | None = None,
) -> str:
    """Tell who has `approved`, each with their words, and the people of the next stage that it is
    their turn.

    "✅ @ana approved. ➡️ @cleo: your approval comes next, by 16:00: Pay 40 EUR"
    """
    by = f", by {format_deadline(deadline)}" if deadline else ""
    names = [_with_words(each, stand_ins or {}) for each in approved]
    before = f"✅ {_and(names)} approved. " if names else ""
    return f"{before}➡️ {who}: your approval comes next{by}: {effect_list(effects)}"


def _with_words(approver: tuple[str, str], stand_ins: Mapping[str, str]) -> str:
    person, words = approver
    return decider_mention(person, stand_ins) + (f" (“{cite(words)}”)" if words.strip() else "")


def escalation_line(effects: Sequence[str], who: str, deadline: datetime | None) -> str:
    """Tell more people that they may decide as well, because nobody has."""
    by = f", by {format_deadline(deadline)}" if deadline else ""
    what = effect_list(effects)
    return f"⏫ {who}: nobody has decided this yet, and now you may, too{by}: {what}"


def expired_line(effects: Sequence[str], deadline: datetime | None, requester: str) -> str:
    """Tell the thread in one line that nobody answered in time."""
    by = f" by {when(deadline)}" if deadline else " in time"
    what = f"⌛ Nobody answered{by}, so this will not happen: {effect_list(effects)}"
    return f"{what}. {_asked_by(requester)}."


def cancelled_line(person: str, client: str = "") -> str:
    """Tell the thread in one line that the request was stopped, and by which program of theirs."""
    who = f"{mention(person)}{through(client)}"
    what = f"{who} cancelled the request" if person else "The request was cancelled"
    return f"⏹️ {what}. Nothing more will run."


def requester_left(person: str) -> str:
    """Tell the thread, and who decides, that a request ends since nobody asks for it any more."""
    who = f"{mention(person)}, who asked for this, has no active account here anymore"
    return f"⏹️ {who}, so the request is cancelled. Nothing more of it will run."


def gave_up(error: str) -> str:
    """Tell the thread that the run cannot go on; the Retry button goes with it."""
    return (
        f"I could not go on: {cite(error)}\nNothing is lost: Retry continues from here, and "
        "nothing runs twice."
    )


def not_asked(title: str, why: str) -> str:
    """Tell the thread that a call was refused before anybody was asked; `title` is its tool's."""
    begins = f"I did not ask anybody about “{cite(title, 80)}”"
    if why.startswith(POLICY):
        return f"{begins}, for the policy says no: {cite(why.removeprefix(POLICY)).rstrip('.')}."
    return f"{begins}: {cite(why).rstrip('.')}."
