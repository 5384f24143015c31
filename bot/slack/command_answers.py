"""The questions of the `/approvals` command, and the functions that answer them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from bot.approvals.channel_mode import ChannelModeSwitcher
from bot.approvals.grants import GrantManager
from bot.approvals.person_views import PersonViewFactory
from bot.cards import delegation_dialog, request_list, slack_text
from bot.explain import report, rule_report
from bot.explain.explanation import ExplanationSources, explain_call
from bot.explain.typed_call import TypedCallError, parse_typed_call
from bot.policy.authority import Directory, LookupFailedError
from bot.slack.request_dialogs import RequestDialogOpener
from bot.tools import Registry
from storage import grants, request_lists
from storage.channel_modes import EVERYWHERE
from storage.record import Run
from storage.states import ChannelMode

# People, groups and channels of an explanation in Slack's markup.


@dataclass(frozen=True, slots=True)
class SlackMentionStyle:
    """Slack markup for an explanation: people, groups and channels as mentions.

    All other text is shown literally; see `MentionStyle`.
    """

    directory: Directory

    def format_person(self, user: str) -> str:
        """Return a mention of the person."""
        return slack_text.user_mention(user)

    def format_group(self, handle: str) -> str:
        """Return a mention of the group, or @handle if it cannot be looked up."""
        try:
            found = self.directory.find_group(handle)
        except LookupFailedError:
            found = None
        return (
            slack_text.group_mention(found.id) if found else slack_text.escape_mrkdwn(f"@{handle}")
        )

    def format_channel(self, channel: str) -> str:
        """Return a mention of the channel, or its name if it cannot be looked up.

        Slack has no mention of a direct message.
        """
        is_id = slack_text.CHANNEL_ID_PATTERN.fullmatch(channel)
        if is_id and channel.startswith("D"):
            return "a direct message"
        try:
            found = channel if is_id else self.directory.find_channel_id(channel)
        except LookupFailedError:
            found = None
        return slack_text.channel_mention(found) if found else slack_text.escape_mrkdwn(channel)

    def quote_text(self, text: str) -> str:
        """Return a text on one escaped line of 1200 characters at most, with secrets masked."""
        return slack_text.sanitise_for_mrkdwn(text, 1200)


SLASH_COMMAND = "/approvals"
# days that `history` and `report` look back by default, and at most
DEFAULT_HISTORY_DAYS = 7
DEFAULT_REPORT_DAYS = 30
MAX_DAYS = 90


@dataclass(frozen=True, slots=True)
class SlashCommandInvocation:
    """One use of a slash subcommand: the person, the channel, and the words after its name."""

    person: str
    channel: str
    words: Sequence[str]
    trigger: str = ""  # Slack's trigger id: opens one dialog, within three seconds


@dataclass(frozen=True, slots=True)
class SlashSubcommand:
    """A subcommand of the slash command, with its answer."""

    usage: str  # what follows the command
    description: str
    # Returns mrkdwn or a drawn answer; "" if a dialog opens instead. May look people up, and raise
    # TypedCallError or LookupFailedError.
    answer: Callable[
        [SlashCommandServices, SlashCommandInvocation], str | request_list.SlashCommandAnswer
    ]
    # whether these words, in a message to the bot, mean this and are not for the agent
    is_asked_by_words: Callable[[SlashCommandServices, Sequence[str]], bool] = lambda _can, words: (
        not words
    )


@dataclass(frozen=True, slots=True)
class SlashCommandServices:
    """The services needed to answer slash subcommands."""

    explanation_sources: ExplanationSources
    grants: GrantManager
    tools: Registry
    request_opener: RequestDialogOpener
    modes: ChannelModeSwitcher
    person_views: PersonViewFactory


def _open_request_dialog(can: SlashCommandServices, asked: SlashCommandInvocation) -> str:
    words = " ".join(asked.words)
    return can.request_opener.open_dialog_for_command(
        asked.person, asked.channel, asked.trigger, words
    )


def _show_request(
    can: SlashCommandServices, asked: SlashCommandInvocation
) -> request_list.SlashCommandAnswer:
    if len(asked.words) != 1:
        raise TypedCallError("Name one request: the link to its card, or its id.")
    overview, name = can.person_views.build_overview(), asked.words[0].strip("`")
    found = overview.render_request_history(asked.person, name)
    if found is None:
        raise TypedCallError("There is no request with that id that you may read.")
    return found


def _show_history(
    can: SlashCommandServices, asked: SlashCommandInvocation
) -> request_list.SlashCommandAnswer:
    days = _parse_day_count(asked.words)
    if days is None:
        raise TypedCallError(f"Say how many days: {SLASH_COMMAND} history 7, up to {MAX_DAYS}.")
    return can.person_views.build_overview().render_decisions(asked.person, days)


def _parse_day_count(given: Sequence[str], usual: int = DEFAULT_HISTORY_DAYS) -> int | None:
    """Return the number of days asked for, by default `usual`; None if it is not valid."""
    if not given:
        return usual
    number, unit = given[0], list(given[1:])
    if unit not in ([], ["day"], ["days"]) or not (number.isascii() and number.isdigit()):
        return None
    return int(number) if 1 <= int(number) <= MAX_DAYS else None


def _explain_typed_call(can: SlashCommandServices, asked: SlashCommandInvocation) -> str:
    sources = can.explanation_sources.sources
    tool, args = parse_typed_call(can.tools, asked.words, sources.directory, asked.person)
    now = sources.clock.now()
    run = Run(
        team=can.grants.team,
        channel=asked.channel,
        thread_ts="",
        requester=asked.person,
        created_at=now,
        updated_at=now,
    )
    style = SlackMentionStyle(sources.directory)
    return "\n".join(explain_call(can.explanation_sources, style, run, tool, args))


def _list_commands(_can: SlashCommandServices, _asked: SlashCommandInvocation) -> str:
    lines = [f"{SLASH_COMMAND} {each.usage} — {each.description}" for each in SUBCOMMANDS.values()]
    return "\n".join(
        ["You can ask me:", *(f"• {slack_text.escape_mrkdwn(line)}" for line in lines)]
    )


def _list_delegations(
    can: SlashCommandServices, asked: SlashCommandInvocation
) -> request_list.SlashCommandAnswer:
    delegations = can.person_views.build_delegation_manager().list_delegations(asked.person)
    return delegation_dialog.render_delegations(delegations)


def _build_report_answer(
    can: SlashCommandServices, asked: SlashCommandInvocation
) -> str | request_list.SlashCommandAnswer:
    days = _parse_day_count(asked.words, usual=DEFAULT_REPORT_DAYS)
    if days is None:
        raise TypedCallError(f"Say how many days: {SLASH_COMMAND} report 30, up to {MAX_DAYS}.")
    lists = can.person_views.build_overview()
    if not lists.histories.may_read_every_request(asked.person):
        return "Only the people whom the policy names as readers get the report."
    until = lists.clock.now() + timedelta(seconds=1)  # so that what was asked just now is included
    since = until - timedelta(days=days)
    asked_calls, by_rule = rule_report.load_rule_report(can.person_views, since, until)
    computed_report = report.compute_report(asked_calls, since, until)
    titles = {name: tool.title for name, tool in can.tools.tools.items()}
    file = _prepare_report_picture(computed_report, titles)
    note = "I am sending you a picture of it in a direct message." if file else ""
    blocks = report.render_report_blocks(computed_report, titles, note)
    words = SlackMentionStyle(can.explanation_sources.sources.directory)
    blocks += rule_report.render_findings_blocks(by_rule, words)
    return request_list.SlashCommandAnswer(report.TITLE, blocks, file)


def _prepare_report_picture(
    computed_report: report.Report, titles: Mapping[str, str]
) -> Callable[[], request_list.SlashCommandAnswerFile] | None:
    """Return a function that draws the report; None if it has no data or matplotlib is missing."""
    try:
        # imported here, since matplotlib may be missing: it comes with an extra
        from bot.explain.report_picture import draw_report_png, has_decisions_to_draw
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        return None
    if not has_decisions_to_draw(computed_report):
        return None
    title = f"Decisions from {computed_report.since:%Y-%m-%d} to {computed_report.until:%Y-%m-%d}"
    alt = f"{title} (UTC). {report.describe_decision_speed(computed_report)}"
    name = f"decisions-{computed_report.until:%Y-%m-%d}.png"
    return lambda: request_list.SlashCommandAnswerFile(
        name, title, alt, draw_report_png(computed_report, titles)
    )


def _revoke_grant(can: SlashCommandServices, asked: SlashCommandInvocation) -> str:
    if len(asked.words) != 1:
        raise TypedCallError("Name one saved approval by its id.")
    return can.grants.revoke_grant(asked.words[0].strip("`"), asked.person)


def _show_or_switch_mode(can: SlashCommandServices, asked: SlashCommandInvocation) -> str:
    words = [each.lower() for each in asked.words]
    channel = EVERYWHERE if words[-1:] == ["everywhere"] else asked.channel
    if words in ([], ["everywhere"]):
        return can.modes.describe_mode(channel)
    if words not in _MODE_WORDS:
        modes = "The modes are observe, ask and strict; add “everywhere” for all conversations."
        raise TypedCallError(modes)
    return can.modes.switch_mode(channel, ChannelMode(words[0]), asked.person)


def _is_request_reference(can: SlashCommandServices, words: Sequence[str]) -> bool:
    """Return whether the words are a link to a message, or the id of a stored request.

    An order's number may look like a fingerprint, and any word of 22 letters like an id, so ids are
    looked up in the database.
    """
    if len(words) != 1 or not request_list.is_request_reference(words[0]):
        return False
    if request_list.parse_permalink(words[0]):
        return True
    name, team = words[0].strip("`"), can.grants.team
    with can.grants.store.read() as tx:
        return request_lists.find_request_by_id_or_digest(tx, team, name) is not None


def _is_grant_id(can: SlashCommandServices, words: Sequence[str]) -> bool:
    if len(words) != 1:
        return False
    with can.grants.store.read() as tx:
        return grants.find_grant(tx, words[0].strip("`")) is not None


def _is_typed_call(can: SlashCommandServices, words: Sequence[str]) -> bool:
    return bool(words) and words[0] in can.tools.tools and all("=" in each for each in words[1:])


_MODE_WORDS = [[str(mode), *place] for mode in ChannelMode for place in ([], ["everywhere"])]
SUBCOMMANDS: dict[str, SlashSubcommand] = {
    "list": SlashSubcommand(
        "list",
        "what is waiting for you",
        lambda can, asked: can.person_views.build_overview().render_decidable_calls(asked.person),
    ),
    "requests": SlashSubcommand(
        "requests",
        "what you have asked for, and its status",
        lambda can, asked: can.person_views.build_overview().render_own_requests(asked.person),
    ),
    "request": SlashSubcommand(
        "request [what]",
        "ask for something with a form, without the agent",
        _open_request_dialog,
        lambda _can, _words: False,  # only a command or a button can open a dialog
    ),
    "show": SlashSubcommand(
        "show <link or id>",
        "the whole story of one request: who asked, changed and decided what",
        _show_request,
        _is_request_reference,
    ),
    "history": SlashSubcommand(
        "history [days]",
        "what you decided lately, and what was decided for you",
        _show_history,
        lambda _can, words: _parse_day_count(words) is not None,
    ),
    "report": SlashSubcommand(
        "report [days]",
        "how many were decided, how fast and by whom, with a picture; for the policy's readers",
        _build_report_answer,
        lambda _can, words: _parse_day_count(words) is not None,
    ),
    "explain": SlashSubcommand(
        "explain <tool> key=value …",
        "what would happen to this call if you asked for it here, and why",
        _explain_typed_call,
        _is_typed_call,
    ),
    "grants": SlashSubcommand(
        "grants",
        "approvals that were saved for you, and those that you saved",
        lambda can, asked: can.grants.describe_grants(asked.person),
    ),
    "revoke": SlashSubcommand(
        "revoke <id>",
        "end a saved approval: the next such call needs approval again",
        _revoke_grant,
        _is_grant_id,
    ),
    "delegate": SlashSubcommand(
        "delegate", "have somebody decide for you for some days, or end that", _list_delegations
    ),
    "mode": SlashSubcommand(
        "mode [observe | ask | strict] [everywhere]",
        "see or change this channel's mode: what needs approval, and what may run at all",
        _show_or_switch_mode,
        lambda _can, words: not words or [each.lower() for each in words] in _MODE_WORDS,
    ),
    "help": SlashSubcommand("help", "this list", _list_commands),
}
