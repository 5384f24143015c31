"""What policy says about a call: rules as data and facts in, a Gate out. PURE: it is handed the
policy's text and may not open files, ask Slack or look at the clock; whatever it does not
understand, it refuses.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from bot.durations import DAY, seconds
from bot.policy.facts import Facts
from bot.policy.file import (
    ASK_KEYS,
    EFFECTS,
    Loc,
    Options,
    Places,
    PolicyFile,
    key_of,
    odd_keys,
    sentence_for,
)
from bot.policy.gates import Allow, Approvers, Ask, Deny, Escalation, Gate, Offer, Stage
from bot.policy.lint import nonsense
from bot.policy.rules import Needs, Rule

__all__ = [
    "Allow",
    "Approvers",
    "Ask",
    "Deny",
    "Gate",
    "Judged",
    "Policy",
    "PolicyError",
    "Stage",
    "Tried",
    "parse",
]
# what verdict = "once" remembers: these very arguments
ONCE = Offer(where="everywhere", lasts=30 * DAY, uses=1000)


class PolicyError(ValueError):
    """The policy cannot be used.

    `problems` has one line each: file, line, key, what is wrong, what to do.
    """

    def __init__(self, source: str, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n  ".join([f"the policy {source} cannot be used:", *problems]))


@dataclass(frozen=True, slots=True)
class Tried:
    """What one rule said of a call."""

    rule: str
    fits: bool | None  # None: it could not be told
    why: str  # what decided it, for people


@dataclass(frozen=True, slots=True)
class Judged:
    """The gate, and how the policy came to it."""

    gate: Allow | Deny | Ask
    tried: tuple[Tried, ...]


class Policy(BaseModel):
    """A whole policy, read and checked; `parse` makes one."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    source: str
    rules: tuple[Rule, ...]
    default: Ask | None  # None only where the rules leave no call that changes something to it
    # tools that read, but more than is allowed unasked (Tool.asks)
    asking: frozenset[str] = frozenset()

    def gate(self, facts: Facts) -> Allow | Deny | Ask:
        """What holds for a call; see `judged`."""
        return self.judged(facts).gate

    def judged(self, facts: Facts) -> Judged:
        """What holds for a call, and why.

        The first matching rule applies, but a deny that matches wins wherever it stands; otherwise
        reads are allowed and all else asks. What cannot be told of a rule counts as a match where
        it denies or asks, and where it allows, nothing is allowed any more. An effect class nobody
        knows counts as destructive and is never allowed. The tools in `asking` are allowed only by
        a rule that names them, not by one for all tools.
        """
        known = facts.effect in EFFECTS
        tried: list[Tried] = []
        found: Allow | Ask | None = None
        doubtful = not known
        for rule in self.rules:
            fits, why = rule.fits(facts, facts.effect if known else "destructive")
            tried.append(Tried(rule.name, fits, why))
            if fits is False:
                continue
            if isinstance(rule.gate, Deny):
                reason = (
                    rule.gate.reason
                    if fits
                    else f"it could not be told whether {rule.name!r} applies: {why}"
                )
                return Judged(rule.gate.model_copy(update={"reason": reason}), tuple(tried))
            if found is None and isinstance(rule.gate, Allow):
                doubtful = doubtful or fits is None
                if not doubtful and (facts.tool not in self.asking or rule.names(facts.tool)):
                    found = rule.gate
            elif found is None:
                found = rule.gate
        if (
            found is None
            and facts.effect == "read"
            and facts.tool not in self.asking
            and not doubtful
        ):
            found = Allow(rule="default")
        return Judged(self._narrowed(found or self.default, facts.effect), tuple(tried))

    def _narrowed(self, gate: Allow | Ask | None, effect: str) -> Allow | Deny | Ask:
        """What cannot be undone is never remembered; what nobody can decide is denied."""
        if gate is None:
            return Deny(
                rule="default", reason=f"no rule names who may decide about the effect {effect!r}"
            )
        if isinstance(gate, Ask) and effect not in ("read", "write"):
            return gate.model_copy(update={"remember": (), "once": None})
        # nobody remembers alone what takes several
        if isinstance(gate, Ask) and gate.people > 1 and gate.remember:
            return gate.model_copy(update={"remember": ()})
        return gate

    def needs(self, tool: str, effect: str, risk: str) -> Needs:
        """What has to be looked up before a call can be judged: only what the rules for such calls
        name.
        """
        about = [
            rule
            for rule in self.rules
            if rule.is_about(tool, effect if effect in EFFECTS else None, risk)
        ]
        return Needs.of(about)

    def asks(self) -> list[Ask]:
        """Every gate of this policy that asks people, in the order of the rules, the default last."""
        gates = [rule.gate for rule in self.rules]
        return [each for each in (*gates, self.default) if isinstance(each, Ask)]

    @property
    def digest(self) -> str:
        """SHA-256 of what the rules mean (hex): comments and layout do not change it."""
        return hashlib.sha256(
            self.model_dump_json(exclude={"source", "asking"}).encode()
        ).hexdigest()


def parse(text: str, source: str = "policy") -> Policy:
    """Read a policy's TOML `text`, called `source` in messages.

    Raises PolicyError with all that is wrong.
    """
    places = Places(text)
    problems: list[tuple[int, str]] = []  # line, sentence

    def problem(loc: Loc, sentence: str) -> None:
        line = places.line(loc)
        problems.append((line, f"{source}:{line}: {key_of(loc)}: {sentence}"))

    policy = None
    try:
        policy = _assemble(PolicyFile.model_validate(tomllib.loads(text)), source, problem)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+)", str(error))
        line = int(found[1]) if found else text.rstrip().count("\n") + 1
        problems.append((line, f"{source}:{line}: this is not TOML: {error}; correct this line"))
    except RecursionError:
        problems.append((1, f"{source}:1: this is nested too deeply; write it flat"))
    except ValidationError as invalid:
        for each in invalid.errors():
            problem(each["loc"], sentence_for(each))
    if policy is None or problems:
        raise PolicyError(source, [sentence for _, sentence in sorted(problems)])
    return policy


def _assemble(written: PolicyFile, source: str, problem: Callable[[Loc, str], None]) -> Policy:
    """The policy that `written` means; what makes no sense as a whole is told to `problem`."""
    default = _ask("default", written.defaults, Options())
    for key, sentence in nonsense(written.defaults, Options(), default):
        problem(("defaults", key), sentence)
    rules: list[Rule] = []
    covered: set[str] = set()  # the effects of which no later rule sees a call
    answered: set[str] = set()  # the effects of which no call is left to the default
    names = {"default"}
    for index, each in enumerate(written.rule):
        name = each.name or f"rule {index + 1}"
        if name in names:
            problem(("rule", index, "name"), f"the name {name!r} is taken; give each rule its own")
        names.add(name)
        asked = _ask(name, each, written.defaults)
        odd = nonsense(each, written.defaults, asked) if each.verdict in ("ask", "once") else ()
        for key, sentence in (*odd_keys(each), *odd):
            problem(("rule", index, key), sentence)
        if set(each.effect) <= covered and each.verdict != "deny":
            problem(
                ("rule", index),
                "can never apply: an earlier rule takes every such call; move it up",
            )
        gate: Gate | None = asked
        if each.verdict == "once" and asked is not None:
            gate = asked.model_copy(update={"remember": (), "once": ONCE})
        if each.verdict in ("allow", "deny"):
            gate = (
                Allow(rule=name)
                if each.verdict == "allow"
                else Deny(rule=name, reason=each.reason or "")
            )
        if gate is None:
            problem(
                ("rule", index, "approvers"),
                "nobody could decide; name them here or under [defaults]",
            )
            continue
        rule = Rule(
            name=name,
            tools=tuple(each.tool),
            effects=tuple(each.effect),
            risks=tuple(each.risk),
            channels=tuple(each.channel),
            requesters=tuple(each.requester),
            when=each.when or "",
            gate=gate,
        )
        rules.append(rule)
        answered |= rule.covers()
        covered |= rule.covers() if gate.verdict != "deny" else set()  # a later deny still wins
    if default is None and not {"write", "destructive"} <= answered:
        remedy = 'add approvers = ["@your-group"] there, or a last [[rule]] for tool = "*"'
        problem(
            ("defaults", "approvers"),
            f"nobody could decide about calls that no rule matches; {remedy}",
        )
    return Policy(source=source, rules=tuple(rules), default=default)


def _ask(name: str, first: Options, second: Options) -> Ask | None:
    """The gate that `first` asks for, filled up from `second`; None where neither names approvers."""
    own = first.model_dump(exclude_none=True, include=set(ASK_KEYS))
    chosen = second.model_dump(exclude_none=True)
    if "stages" in own or "approvers" in own:  # who decides is said in one place
        for key in ("stages", "approvers", "quorum"):
            chosen.pop(key, None)
    chosen |= own
    steps = chosen.pop("stages", None)
    who, quorum = chosen.pop("approvers", []), chosen.pop("quorum", 1)
    if steps is None and who:
        steps = [{"approvers": who, "quorum": quorum}]
    if not steps:
        return None
    if "deadline" in chosen:
        chosen["deadline"] = seconds(chosen["deadline"])
    return Ask(
        rule=name,
        stages=tuple(
            Stage(approvers=_approvers(each["approvers"]), quorum=each["quorum"]) for each in steps
        ),
        reminders=tuple(sorted({seconds(each) for each in chosen.pop("reminders", ())})),
        escalation=tuple(
            Escalation(after=seconds(each["after"]), approvers=_approvers(each["approvers"]))
            for each in sorted(
                chosen.pop("escalation", ()), key=lambda each: seconds(each["after"])
            )
        ),
        remember=tuple(
            Offer(**{**each, "lasts": seconds(each["lasts"])})
            for each in chosen.pop("remember", ())
        ),
        **chosen,
    )


def _approvers(who: Iterable[str]) -> Approvers:
    who = tuple(dict.fromkeys(who))
    return Approvers(
        users=tuple(each for each in who if each[0] in "UW"),
        groups=tuple(each[1:] for each in who if each[0] == "@"),
        channel="channel" in who,
        requester="requester" in who,
    )
