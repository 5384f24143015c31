"""The sources, the stories, and what a source cannot do, each with the reason."""

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
    """A story that is tested with each source."""

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
SHORT = ("handed over",)  # also in `make test`: its path is the longest
BY_THE_BOT = dict.fromkeys(
    (Stage.CLAIMED, Stage.DONE, Stage.REPORTED),
    "the bot runs it itself: nothing is handed out and nothing reported",
)
BY_ITSELF = {Stage.RUNNING: "it does it itself, and the bot only writes down how it went"}
CANNOT: dict[str, dict[Story | Stage, str]] = {
    "message": {**BY_THE_BOT},
    "form": {
        Story.TWICE: "a dialog is submitted once: Slack closes it with the first answer",
        Stage.BEFORE: "nobody opens a form where no bot is",
        **BY_THE_BOT,
    },
    "socket": {**BY_THE_BOT},
    "HTTP": {**BY_THE_BOT},
    "handed over": {**BY_ITSELF},
    "@countersigned": {**BY_ITSELF},
    "ask": {**BY_ITSELF},
    "ask, then outcome": {**BY_ITSELF},
    "hook": {**BY_ITSELF},
    "HTTP hook": {
        Stage.BEFORE: "of a line that is refused Claude Code makes what `onFailure` says",
        Stage.STORED: "it has one line, on which nothing comes before people have decided",
        Stage.CLAIMED: "after a yes that is lost Claude Code does what `onFailure` says",
        **BY_ITSELF,
    },
    "mcp-proxy": {**BY_ITSELF},
    "/mcp": {
        Stage.APPROVED: "what ends before the host is back is another wish: docs/hosts.md",
        Stage.RUNNING: "what ends before the host is back is another wish: docs/hosts.md",
        **BY_THE_BOT,
    },
    "chat": {
        Story.TWICE: "a line that is typed twice is two wishes",
        **BY_THE_BOT,
    },
}
IN_SLACK = {  # sources that cannot cancel: it is done in Slack
    "message": "people take it back where they asked",
    "form": "people take it back where they asked",
    "socket": "its client has no word for it",
    "HTTP hook": "it hangs up, which may as well be its line",
    "mcp-proxy": "a host that gives up may come back, and adopts what waits",
    "/mcp": "a host that gives up may come back, and adopts what waits",
}


def build_cases(kinds: type[Story] | type[Stage], *short: Story | Stage) -> list[ParameterSet]:
    """Each source with each story it can have; only those in `short` are not marked long."""
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
