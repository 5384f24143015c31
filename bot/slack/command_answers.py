"""The questions of the `/approvals` command, and the functions that answer them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.approvals.channel_mode import Modes
from bot.approvals.grants import GrantList
from bot.cards import delegation_dialog, sentence_words
from bot.cards.request_list import AnswerFile, CommandAnswer, is_reference, place_of
from bot.cards.slack_text import CHANNEL, channel_mention, escape, group_mention, mention
from bot.explain.explanation import ExplanationSources, explain
from bot.explain.report import TITLE, Report, compute_report, report_blocks, summary
from bot.explain.typed_call import MistypedError, parse_typed_call
from bot.policy.authority import Directory, LookupFailedError
from bot.tools import Registry
from storage import call_history, grants, request_lists
from storage.channel_modes import EVERYWHERE
from storage.models import Run
from storage.states import Mode

if TYPE_CHECKING:
    from bot.approvals.person_views import PersonViews
    from bot.slack.request_dialogs import RequestOpeners


# People, groups and channels of an explanation in Slack's markup.


class SlackWords:
    """Slack markup for an explanation: people, groups and channels as mentions.

    All other text is shown literally; see `MentionStyle`.
    """

    def __init__(self, directory: Directory) -> None:
        """`directory` looks up groups and channels by name."""
        self._directory = directory

    def person(self, user: str) -> str:
        """Return a mention of the person."""
        return mention(user)

    def group(self, handle: str) -> str:
        """Return a mention of the group, or @handle if it cannot be looked up."""
        try:
            found = self._directory.group(handle)
        except LookupFailedError:
            found = None
        return group_mention(found.id) if found else escape(f"@{handle}")

    def channel(self, channel: str) -> str:
        """Return a mention of the channel, or its name if it cannot be looked up."""
        try:
            found = channel if CHANNEL.fullmatch(channel) else self._directory.channel(channel)
        except LookupFailedError:
            found = None
        return channel_mention(found) if found else escape(channel)

    def quoted(self, text: str) -> str:
        """Return a text on one escaped line of 1200 characters at most, with secrets masked."""
        return sentence_words.cite(text, 1200)


COMMAND = "/approvals"
# that `history` looks back unless told otherwise, `report`, and either at most
DAYS, REPORTED, MOST_DAYS = 7, 30, 90


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A question as asked: the person, the channel, and the words after its name."""

    person: str
    channel: str
    words: Sequence[str]
    trigger: str = ""  # opens one dialog, within three seconds


@dataclass(frozen=True, slots=True)
class Question:
    """A question that the command answers."""

    usage: str  # behind the command
    says: str
    # mrkdwn, or drawn; "" where a dialog opens instead; may look people up, and raise
    # MistypedError or LookupFailedError
    answer: Callable[[Answerer, SlashCommand], str | CommandAnswer]
    # whether the words behind its name, written to the bot, ask this and are not for the agent
    meant: Callable[[Answerer, Sequence[str]], bool] = lambda _can, words: not words


@dataclass(frozen=True, slots=True)
class Answerer:
    """The services needed to answer the questions."""

    grounds: ExplanationSources
    grants: GrantList
    tools: Registry
    requests: RequestOpeners
    modes: Modes
    desk: PersonViews


def _request(can: Answerer, asked: SlashCommand) -> str:
    return can.requests.asked(asked.person, asked.channel, asked.trigger, " ".join(asked.words))


def _list(can: Answerer, asked: SlashCommand) -> CommandAnswer:
    return can.desk.overview().waiting(asked.person)


def _requests(can: Answerer, asked: SlashCommand) -> CommandAnswer:
    return can.desk.overview().requests(asked.person)


def _show(can: Answerer, asked: SlashCommand) -> CommandAnswer:
    if len(asked.words) != 1:
        raise MistypedError("Name one request: the link to its card, or its id.")
    found = can.desk.overview().show(asked.person, asked.words[0].strip("`"))
    if found is None:
        raise MistypedError("There is no request with that id that you may read.")
    return found


def _history(can: Answerer, asked: SlashCommand) -> CommandAnswer:
    days = _days(asked.words)
    if days is None:
        raise MistypedError(f"Say how many days: {COMMAND} history 7, up to {MOST_DAYS}.")
    return can.desk.overview().history(asked.person, days)


def _days(given: Sequence[str], usual: int = DAYS) -> int | None:
    """Return the number of days asked for, by default `usual`; None if it is not valid."""
    if not given:
        return usual
    number, unit = given[0], list(given[1:])
    if unit not in ([], ["day"], ["days"]) or not (number.isascii() and number.isdigit()):
        return None
    return int(number) if 1 <= int(number) <= MOST_DAYS else None


def _explain(can: Answerer, asked: SlashCommand) -> str:
    tool, args = parse_typed_call(
        can.tools, asked.words, can.grounds.sources.directory, asked.person
    )
    now = can.grounds.sources.clock.now()
    run = Run(
        team=can.grants.team,
        channel=asked.channel,
        thread_ts="",
        requester=asked.person,
        created_at=now,
        updated_at=now,
    )
    return "\n".join(
        explain(can.grounds, SlackWords(can.grounds.sources.directory), run, tool, args)
    )


def _help(_can: Answerer, _asked: SlashCommand) -> str:
    lines = [f"{COMMAND} {each.usage} — {each.says}" for each in QUESTIONS.values()]
    return "\n".join(["You can ask me:", *(f"• {escape(line)}" for line in lines)])


def _grants(can: Answerer, asked: SlashCommand) -> str:
    return can.grants.listed(asked.person)


def _delegate(can: Answerer, asked: SlashCommand) -> CommandAnswer:
    return delegation_dialog.draw_delegations(can.desk.delegations().about(asked.person))


def _report(can: Answerer, asked: SlashCommand) -> str | CommandAnswer:
    days = _days(asked.words, usual=REPORTED)
    if days is None:
        raise MistypedError(f"Say how many days: {COMMAND} report 30, up to {MOST_DAYS}.")
    lists = can.desk.overview()
    if not lists.lives.is_reader(asked.person):
        return "The report is only for the people whom the policy names as readers."
    until = lists.clock.now() + timedelta(seconds=1)  # what was asked just now is in it
    since = until - timedelta(days=days)
    with lists.store.read() as tx:
        found = compute_report(call_history.asked_calls(tx, lists.team, since, until), since, until)
    titles = {name: tool.title for name, tool in can.tools.tools.items()}
    file = _picture(found, titles)
    note = "I am sending you a picture of it in a direct message." if file else ""
    return CommandAnswer(TITLE, report_blocks(found, titles, note), file)


def _picture(found: Report, titles: Mapping[str, str]) -> Callable[[], AnswerFile] | None:
    """Return a function that draws the report; None if it has no data or matplotlib is missing."""
    try:
        # here, since matplotlib may be missing: it comes with an extra only
        from bot.explain.report_picture import draw_png, has_picture
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        return None
    title = f"Decisions from {found.since:%Y-%m-%d} to {found.until:%Y-%m-%d}"
    alt = f"{title} (UTC). {summary(found)}"
    name = f"decisions-{found.until:%Y-%m-%d}.png"
    return (
        (lambda: AnswerFile(name, title, alt, draw_png(found, titles)))
        if has_picture(found)
        else None
    )


def _revoke(can: Answerer, asked: SlashCommand) -> str:
    if len(asked.words) != 1:
        raise MistypedError("Name one saved approval by its id.")
    return can.grants.revoke(asked.words[0].strip("`"), asked.person)


def _mode(can: Answerer, asked: SlashCommand) -> str:
    words = [each.lower() for each in asked.words]
    if not words:
        return can.modes.shown(asked.channel)
    if words not in _MODES:
        raise MistypedError(
            "The modes are observe, ask and strict; add “everywhere” for all conversations."
        )
    channel = asked.channel if len(words) == 1 else EVERYWHERE
    return can.modes.switch(channel, Mode(words[0]), asked.person)


def _names_a_request(can: Answerer, words: Sequence[str]) -> bool:
    """Return whether the words are a link to a message, or the id of a stored request.

    An order's number may look like a fingerprint, and any word of 22 letters like an id, so ids are
    looked up in the database.
    """
    if len(words) != 1 or not is_reference(words[0]):
        return False
    if place_of(words[0]):
        return True
    with can.grants.store.read() as tx:
        return request_lists.request_by_id(tx, can.grants.team, words[0].strip("`")) is not None


def _names_a_grant(can: Answerer, words: Sequence[str]) -> bool:
    if len(words) != 1:
        return False
    with can.grants.store.read() as tx:
        return grants.get(tx, words[0].strip("`")) is not None


def _types_a_call(can: Answerer, words: Sequence[str]) -> bool:
    return bool(words) and words[0] in can.tools.tools and all("=" in each for each in words[1:])


_MODES = [[str(mode), *place] for mode in Mode for place in ([], ["everywhere"])]
QUESTIONS: dict[str, Question] = {
    "list": Question("list", "what waits for you", _list),
    "requests": Question("requests", "what you have asked for, and how it stands", _requests),
    "request": Question(
        "request [what]",
        "ask for something with a form, without the agent",
        _request,
        lambda _can, _words: False,  # a dialog opens by a command or a button only
    ),
    "show": Question(
        "show <link or id>",
        "the whole story of one request: who asked, changed and decided what",
        _show,
        _names_a_request,
    ),
    "history": Question(
        "history [days]",
        "what you decided lately, and what was decided for you",
        _history,
        lambda _can, words: _days(words) is not None,
    ),
    "report": Question(
        "report [days]",
        "how many were decided, how fast and by whom, with a picture; for the policy's readers",
        _report,
        lambda _can, words: _days(words) is not None,
    ),
    "explain": Question(
        "explain <tool> key=value …",
        "what would happen to this call if you asked for it here, and why",
        _explain,
        _types_a_call,
    ),
    "grants": Question(
        "grants", "approvals that were saved for you, and those that you saved", _grants
    ),
    "revoke": Question(
        "revoke <id>",
        "end a saved approval: the next such call is asked again",
        _revoke,
        _names_a_grant,
    ),
    "delegate": Question(
        "delegate", "have somebody decide for you for some days, or end that", _delegate
    ),
    "mode": Question(
        "mode [observe | ask | strict] [everywhere]",
        "see or change this channel's mode: what is asked, and what may run at all",
        _mode,
        lambda _can, words: not words or [each.lower() for each in words] in _MODES,
    ),
    "help": Question("help", "this list", _help),
}
