"""The policies of a simulation, and what each requires, stated a second time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from tests.runs.fakes import ANA, BEN, CLEO, DAN

_BASE = '[defaults]\napprovers = ["@shop-leads"]\ndeadline = "1h"\n'
_FREE = '\n[[rule]]\ntool = "free"\nverdict = "allow"\n'
ALONE = (ANA, BEN, CLEO)
_TWO = "quorum = 2\n"
_NOTE = '\n[[rule]]\ntool = "note"\n'


@dataclass(frozen=True)
class Terms:
    """What a policy requires."""

    name: str
    text: str
    quorum: int = 1
    signed: bool = False  # approvals count only with a passkey's signature
    allows: tuple[str, ...] = ("free", "peek", "ask_person", "desk")
    denies: tuple[str, ...] = ()
    remembers: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()  # people who may break glass
    starts: timedelta | None = None  # start time of approved calls, after midnight in UTC


POLICIES = (
    Terms("one", _BASE + _FREE),
    Terms("two", _BASE + _TWO + _FREE, quorum=2),
    Terms(
        "glass",
        _BASE + _TWO + f'reminders = ["10m"]\nbreak_glass = {list(ALONE)}\n' + _FREE,
        quorum=2,
        alone=ALONE,
    ),
    Terms(
        "other glass",
        _BASE + _TWO + f'break_glass = ["{DAN}"]\n' + _FREE,
        quorum=2,
        alone=(DAN,),
    ),
    Terms("later", _BASE + 'run_at = "14:30 UTC"\n' + _FREE, starts=timedelta(hours=14.5)),
    Terms(
        "glass, later",
        _BASE + f'run_at = "13:00 UTC"\nbreak_glass = {list(ALONE)}\n' + _FREE,
        alone=ALONE,
        starts=timedelta(hours=13),
    ),
    Terms("signed", _BASE + 'signature = "passkey"\n' + _FREE, signed=True),
    Terms("editor", _BASE + "editor_counts = true\n" + _FREE),
    Terms(
        "open",
        _BASE + _FREE + _NOTE + 'verdict = "allow"\n',
        allows=("free", "peek", "ask_person", "desk", "note"),
    ),
    Terms(
        "closed",
        _BASE + _FREE + _NOTE + 'verdict = "deny"\nreason = "not now"\n',
        denies=("note",),
    ),
    Terms(
        "remembers",
        _BASE
        + 'remember = [{lasts = "1h", uses = 2}, '
        + '{fields = ["text"], where = "everywhere", uses = 1}]\n'
        + _FREE,
        remembers=("note", "wipe", "put"),
    ),
    Terms(
        "once",
        _BASE + _FREE + '\n[[rule]]\ntool = ["note", "put", "wipe"]\nverdict = "once"\n',
        remembers=("note", "wipe", "put"),
    ),
)
