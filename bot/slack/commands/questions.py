"""What can be asked behind `/approvals`, and how each question is answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.approvals.modes.switching import Modes
from bot.approvals.terms.grants import GrantList
from bot.explain.explain import explain
from bot.explain.grounds import Grounds
from bot.explain.typed_call import MistypedError, typed_call
from bot.messages.text import escape
from bot.slack.commands.words import SlackWords
from bot.tools import Registry
from storage.models import Run
from storage.states import Mode

if TYPE_CHECKING:  # the dialogs' own modules are many
    from bot.slack.dialogs.doors import RequestDoors

COMMAND = "/approvals"


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """Who asks, where, and the words behind the command's own."""

    person: str
    channel: str
    words: Sequence[str]
    trigger: str = ""  # opens one dialog, within three seconds


@dataclass(frozen=True, slots=True)
class Question:
    """One thing that can be asked."""

    usage: str  # behind the command
    says: str
    # mrkdwn, "" where a dialog opens instead; may look people up, and raise MistypedError or
    # LookupFailedError
    answer: Callable[[Answerer, SlashCommand], str]


@dataclass(frozen=True, slots=True)
class Answerer:
    """What it takes to answer the questions."""

    grounds: Grounds
    grants: GrantList
    tools: Registry
    requests: RequestDoors
    modes: Modes


def _request(can: Answerer, asked: SlashCommand) -> str:
    return can.requests.asked(asked.person, asked.channel, asked.trigger, " ".join(asked.words))


def _explain(can: Answerer, asked: SlashCommand) -> str:
    tool, args = typed_call(can.tools, asked.words, can.grounds.sources.directory, asked.person)
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


def _revoke(can: Answerer, asked: SlashCommand) -> str:
    if len(asked.words) != 1:
        raise MistypedError("Name one remembered approval by its id.")
    return can.grants.revoke(asked.words[0].strip("`"), asked.person)


def _mode(can: Answerer, asked: SlashCommand) -> str:
    words = [each.lower() for each in asked.words]
    if not words:
        return can.modes.shown(asked.channel)
    if len(words) != 1 or words[0] not in frozenset(Mode):
        raise MistypedError("The modes are observe, ask and strict.")
    return can.modes.switch(asked.channel, Mode(words[0]), asked.person)


QUESTIONS: dict[str, Question] = {
    "request": Question(
        "request [what]", "ask for something with a form, without the agent", _request
    ),
    "explain": Question(
        "explain <tool> key=value …",
        "what would become of this call if you asked for it here, and why",
        _explain,
    ),
    "grants": Question(
        "grants", "what is remembered for you, and what you had remembered", _grants
    ),
    "revoke": Question(
        "revoke <id>", "end a remembered approval: the next such call is asked again", _revoke
    ),
    "mode": Question(
        "mode [observe | ask | strict]",
        "what may happen in this channel, and a tighter or a looser way",
        _mode,
    ),
    "help": Question("help", "this list", _help),
}
