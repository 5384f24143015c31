"""What is measured: the table of all metrics, as docs/watching.md has it and the code exports it.

Names follow Prometheus' conventions. No label says who: there are few values of each, and those of
tools, methods and codes are bounded by what there is of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from storage.states import CallStatus, RunStatus, Verb


class Shape(StrEnum):
    """What one can do with a metric's values."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Extent(StrEnum):
    """Of what a value tells."""

    PROCESS = "process"  # what this one did since it began: add them up over all
    INSTALLATION = "installation"  # what the record says: each replica says the same


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric."""

    name: str
    shape: Shape
    about: str
    labels: tuple[str, ...] = ()
    values: Sequence[str] = ()  # of its one label, where the set is closed
    buckets: tuple[float, ...] = ()
    extent: Extent = Extent.PROCESS


QUICK = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0)
SLOW = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
PATIENT = (5, 15, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 8 * 3600, 86_400, 3 * 86_400)
C = CallStatus
SETTLED = tuple(each for each in C if each not in (C.PENDING, C.RUNNING, C.ENTRUSTED))
DECIDED = (C.APPROVED, C.REJECTED, C.ANSWERED, C.EXPIRED)
OPEN = (RunStatus.READY, RunStatus.RUNNING, RunStatus.WAITING)
OVER = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)
ANSWER, OTHER = "answer", "other"
VERBS = (Verb.APPROVE, Verb.REJECT, Verb.EDIT, Verb.RESOLVE, ANSWER)
# why a click did not count, as the verdict says; and what else was refused
WHY = ("stranger", "not_approver", "not_requester", "not_yet", "enough", "own_request")
REFUSED = (*WHY, "own_edit", "lookup", "words", "dialog", "mode", "call", OTHER)
TAKEN, REFUSED_POLICY = "taken", "refused"
COUNTER, GAUGE, HISTOGRAM = Shape.COUNTER, Shape.GAUGE, Shape.HISTOGRAM
_INSTALLATION = Extent.INSTALLATION

DECISIONS = Measure(
    "countersign_decisions_total", COUNTER, "what people said to calls", ("verb",), VERBS
)
DECISION_TIME = Measure(
    "countersign_decision_seconds",
    HISTOGRAM,
    "from the moment people are asked until a call is decided, or its deadline falls",
    ("status",),
    DECIDED,
    PATIENT,
)
CALLS = Measure(
    "countersign_calls_total",
    COUNTER,
    "calls that came to that status; `expired`: nobody answered in time",
    ("status",),
    SETTLED,
)
REFUSALS = Measure(
    "countersign_refusals_total",
    COUNTER,
    "clicks that did not count, by why; dialogs and modes refused; `call`: never asked about",
    ("kind",),
    REFUSED,
)
RUNS = Measure("countersign_runs_total", COUNTER, "requests that ended", ("status",), OVER)
ACKNOWLEDGED = Measure(
    "countersign_acknowledgement_seconds",
    HISTOGRAM,
    "from a delivery's arrival until it is acknowledged; Slack waits three",
    buckets=QUICK,
)
TICKS = Measure("countersign_tick_seconds", HISTOGRAM, "one pass of the loop", buckets=QUICK)
LOOK_UPS = Measure(
    "countersign_lookup_seconds",
    HISTOGRAM,
    "look-ups of people, groups and channels at Slack",
    ("topic",),
    buckets=QUICK,
)
LOOK_UP_FAILURES = Measure(
    "countersign_lookup_failures_total", COUNTER, "those that failed", ("topic",)
)
TURNS = Measure(
    "countersign_turn_seconds", HISTOGRAM, "turns of the model, with all tries", buckets=SLOW
)
MODEL_ERRORS = Measure(
    "countersign_model_errors_total",
    COUNTER,
    "requests to the model that failed",
    ("kind",),
    ("key", "credit", "limit", "time", "connection", "server", "request"),
)
TOKENS = Measure(
    "countersign_model_tokens_total", COUNTER, "tokens used", ("direction",), ("in", "out")
)
TOOLS = Measure(
    "countersign_tool_runs_total",
    COUNTER,
    "tools that ran, by how they ended",
    ("tool", "outcome"),
)
TOOL_TIME = Measure(
    "countersign_tool_seconds", HISTOGRAM, "how long tools ran", ("tool",), buckets=SLOW
)
SLACK_TIME = Measure(
    "countersign_slack_request_seconds",
    HISTOGRAM,
    "calls of Slack's Web API",
    ("method",),
    buckets=QUICK,
)
SLACK_ERRORS = Measure(
    "countersign_slack_errors_total",
    COUNTER,
    "those that failed, by Slack's code or the kind of the error",
    ("method", "code"),
)
PAUSES = Measure(
    "countersign_slack_pauses_total",
    COUNTER,
    "pauses that Slack asked for (Retry-After)",
    ("method",),
)
POLICIES = Measure(
    "countersign_policy_reloads_total",
    COUNTER,
    "new policy files; `refused`: the old one stays in force",
    ("result",),
    (TAKEN, REFUSED_POLICY),
)
UNSTORED = Measure(
    "countersign_unstored_total",
    COUNTER,
    "what the database did not take: deliveries (not acknowledged then) and results (kept)",
)
LATE = Measure(
    "countersign_late_runs_total",
    COUNTER,
    "requests that no job had taken up within five seconds, with several processes: the loop did",
)
PENDING = Measure(
    "countersign_pending_calls", GAUGE, "calls that wait for people", extent=_INSTALLATION
)
OLDEST = Measure(
    "countersign_oldest_pending_call_seconds",
    GAUGE,
    "how long the longest of them has waited",
    extent=_INSTALLATION,
)
OPEN_RUNS = Measure(
    "countersign_open_runs",
    GAUGE,
    "requests that are not over",
    ("status",),
    OPEN,
    extent=_INSTALLATION,
)
UNSENT = Measure(
    "countersign_outbox_messages",
    GAUGE,
    "messages that Slack has yet to be told",
    extent=_INSTALLATION,
)
OUTBOX_LAG = Measure(
    "countersign_outbox_lag_seconds",
    GAUGE,
    "how long this process has seen the oldest of them wait, from one scrape to the next",
)
UNREAD = Measure(
    "countersign_inbox_deliveries",
    GAUGE,
    "deliveries that nobody has dealt with",
    extent=_INSTALLATION,
)
INBOX_LAG = Measure(
    "countersign_inbox_lag_seconds", GAUGE, "how old the oldest of them is", extent=_INSTALLATION
)
READABLE = Measure(
    "countersign_database_up",
    GAUGE,
    "1 where the database could be read and written for this scrape, and has room",
)
SETUP = Measure(
    "countersign_setup_problems",
    GAUGE,
    "what doctor would say of Slack, people and rules: how much is wrong (`fail`), or odd (`warn`)",
    ("level",),
    ("fail", "warn"),
)
BUILD = Measure(
    "countersign_build_info", GAUGE, "1, with version and commit", ("version", "commit")
)

RECORDED = (
    *(DECISIONS, DECISION_TIME, CALLS, REFUSALS, RUNS, ACKNOWLEDGED, TICKS, LOOK_UPS),
    *(LOOK_UP_FAILURES, TURNS, MODEL_ERRORS, TOKENS, TOOLS, TOOL_TIME, SLACK_TIME, SLACK_ERRORS),
    *(PAUSES, POLICIES, UNSTORED, LATE, SETUP, BUILD),
)
READ = (PENDING, OLDEST, OPEN_RUNS, UNSENT, OUTBOX_LAG, UNREAD, INBOX_LAG, READABLE)
MEASURES = (*RECORDED, *READ)
