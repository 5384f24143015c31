"""The result of one check: its level, its subject, what was found, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

FIX_ERRORS_ABOVE_REMEDY = "Correct the failures above first"  # when Slack cannot be asked
CHECK_TIMEOUT_SECONDS = 15.0
NO_REVIEWER_FINDING = (  # the problem, and the remedy
    "all its approvers may break glass, so nobody else is left to review it afterwards",
    "Name an approver who is not in break_glass",
)


class CheckLevel(StrEnum):
    """How good or bad the result of a check is."""

    OK = "ok"  # nothing to do
    WARN = "warn"  # it works, but somebody should look at it
    FAIL = "fail"  # Countersign would not work


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check; the remedy is empty if nothing is to be done."""

    level: CheckLevel
    subject: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        """Return the result as one line, or more if its text has more."""
        line = f"{self.level:<4}  {self.subject}: {self.text}"
        return f"{line}. {self.remedy}" if self.remedy else line


@dataclass(frozen=True, slots=True)
class CheckSubject:
    """What a check is about, such as "rule 'refunds'", which gives the results of that check."""

    name: str

    def confirm(self, text: str) -> CheckResult:
        """Return a result that says all is well."""
        return CheckResult(CheckLevel.OK, self.name, text)

    def warn(self, text: str, remedy: str = "") -> CheckResult:
        """Return a result that somebody should look at, though the bot works."""
        return CheckResult(CheckLevel.WARN, self.name, text, remedy)

    def fail(self, text: str, remedy: str = "") -> CheckResult:
        """Return the result of a check that failed: Countersign would not work like this."""
        return CheckResult(CheckLevel.FAIL, self.name, text, remedy)


def build_rule_subject(rule: str, added: Iterable[str] = ()) -> CheckSubject:
    """Return the subject of a check of a rule, with the names of the rules that add to it."""
    return CheckSubject(f"rule {' with '.join(map(repr, (rule, *added)))}")


def print_checks(checks: Iterable[CheckResult], say: Callable[[str], None]) -> int:
    """Print each check on a line, then the totals; returns the exit code, 1 if a check failed."""
    counts = dict.fromkeys(CheckLevel, 0)
    for check in checks:
        counts[check.level] += 1
        say(str(check))
    bad = counts[CheckLevel.FAIL]
    say(f"{counts[CheckLevel.OK]} ok, {counts[CheckLevel.WARN]} to look at, {bad} wrong")
    return 1 if bad else 0
