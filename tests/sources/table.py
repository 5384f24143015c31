"""The sources, the stories, and what a source cannot have, each with its reason."""

from __future__ import annotations

from enum import StrEnum

import pytest
from _pytest.mark import ParameterSet

from tests.sources.commands import HookByHttp, HookCommand, PrintingJob, RunningJob
from tests.sources.hosts import AtTheEndpoint, BeforeAServer
from tests.sources.in_slack import AtTheTerminal, InAMessage, WithAForm
from tests.sources.programs import AtTheSocket, Decorated, HandedOverHttp, OverHttp
from tests.sources.source import Source, Stage


class Story(StrEnum):
    """What is told of each source."""

    APPROVE = "approve"
    EDIT = "edit"
    REJECT = "reject"
    EXPIRE = "expire"
    QUORUM = "quorum"
    CANCEL = "cancel"
    TWICE = "twice"


SOURCES: tuple[type[Source], ...] = (
    InAMessage,
    WithAForm,
    AtTheSocket,
    OverHttp,
    HandedOverHttp,
    Decorated,
    RunningJob,
    PrintingJob,
    HookCommand,
    HookByHttp,
    BeforeAServer,
    AtTheEndpoint,
    AtTheTerminal,
)
SHORT = ("handed over",)  # told in `make test`, too: it goes the longest way
NOBODY_CLAIMS = "the bot runs it itself: nothing is handed out and nothing reported"
NO_ANSWER = "it waits for no answer that could be lost: Slack delivers it twice instead"
CANNOT: dict[str, dict[Story | Stage, str]] = {
    "message": {
        Stage.STORED: NO_ANSWER,
        Stage.CLAIMED: NOBODY_CLAIMS,
        Stage.DONE: NOBODY_CLAIMS,
        Stage.REPORTED: NOBODY_CLAIMS,
    },
    "form": {
        Story.TWICE: "a dialog is submitted once: Slack closes it with the first answer",
        Stage.BEFORE: "nobody opens a form where no bot is",
        Stage.STORED: NO_ANSWER,
        Stage.CLAIMED: NOBODY_CLAIMS,
        Stage.DONE: NOBODY_CLAIMS,
        Stage.REPORTED: NOBODY_CLAIMS,
    },
    "socket": {
        Stage.STORED: "a local socket loses no answer while the bot lives",
        Stage.CLAIMED: NOBODY_CLAIMS,
        Stage.DONE: NOBODY_CLAIMS,
        Stage.REPORTED: NOBODY_CLAIMS,
    },
    "HTTP": {
        Stage.CLAIMED: NOBODY_CLAIMS,
        Stage.DONE: NOBODY_CLAIMS,
        Stage.REPORTED: NOBODY_CLAIMS,
    },
    "ask, then outcome": {
        Stage.DONE: "it is reported twice: handed on, and by another command how it went",
        Stage.REPORTED: "it is reported twice: handed on, and by another command how it went",
    },
    "hook": {
        Stage.APPROVED: "the bot claims for it, in the moment in which it answers",
        Stage.DONE: "another process says so, of which nobody waits for an answer",
        Stage.REPORTED: "another process says so, of which nobody waits for an answer",
    },
    "HTTP hook": dict.fromkeys(
        Stage, "where its line breaks it has no second word: the bot answers a stop with a no"
    ),
    "/mcp": {
        Stage.BEFORE: "a host whose line is refused tells its own person so",
        Stage.STORED: "its answer is the end of the call",
        Stage.APPROVED: "what ends before the host is back is another wish: docs/hosts.md",
        Stage.CLAIMED: NOBODY_CLAIMS,
        Stage.DONE: NOBODY_CLAIMS,
        Stage.REPORTED: NOBODY_CLAIMS,
    },
    "chat": {
        Story.TWICE: "a line that is typed twice is two wishes",
        Stage.BEFORE: "the chat says that no bot is there, and asks to type it again",
        Stage.STORED: "a local socket loses no answer while the bot lives",
        Stage.CLAIMED: NOBODY_CLAIMS,
        Stage.DONE: NOBODY_CLAIMS,
        Stage.REPORTED: NOBODY_CLAIMS,
    },
}
IN_SLACK = {  # who takes it back in Slack, as the source itself has no way to
    "message": "people take it back where they asked",
    "form": "people take it back where they asked",
    "socket": "its client has no word for it",
    "HTTP hook": "it hangs up, which may as well be its line",
    "mcp-proxy": "a host that gives up may come back, and adopts what waits",
    "/mcp": "a host that gives up may come back, and adopts what waits",
}


def cells(kinds: type[Story] | type[Stage], *short: Story | Stage) -> list[ParameterSet]:
    """Each source with each story that it can have; those in `short` are told in `make test`."""
    return [
        pytest.param(
            source.name,
            kind,
            marks=() if source.name in SHORT and kind in short else (pytest.mark.long,),
            id=f"{source.name}-{kind.name.lower()}",
        )
        for source in SOURCES
        for kind in kinds
        if kind not in CANNOT.get(source.name, {})
    ]
