"""What policy says about a call: rules as data and facts in, a Gate out. PURE: it is handed the policy's text
and may not open files, ask Slack or look at the clock; whatever it does not understand, it refuses.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.policy_file import (
    ASK_KEYS,
    EFFECTS,
    Editors,
    Loc,
    Options,
    Places,
    PolicyFile,
    key_of,
    odd_keys,
    seconds,
    sentence_for,
)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Allow(_Frozen):
    """It may run without asking."""

    verdict: Literal["allow"] = "allow"
    rule: str


class Deny(_Frozen):
    """It may not run, whoever says yes."""

    verdict: Literal["deny"] = "deny"
    rule: str
    reason: str


class Approvers(_Frozen):
    """Who may decide: people, user groups by handle, or the members of the channel where it was asked."""

    users: tuple[str, ...] = ()  # Slack user ids
    groups: tuple[str, ...] = ()  # handles without @
    channel: bool = False


class Ask(_Frozen):
    """People decide."""

    verdict: Literal["ask"] = "ask"
    rule: str
    approvers: Approvers
    post_to: str = "thread"  # thread | approvers | a channel id C… | a channel name #…
    deadline: int = 3600  # seconds from the moment it is asked
    self_approval: bool = False  # the requester may decide
    editors: Editors = "approvers_and_requester"
    editor_counts: bool = False  # who edits may also approve what came of it


Gate = Annotated[Allow | Deny | Ask, Field(discriminator="verdict")]


class PolicyError(ValueError):
    """The policy cannot be used. `problems` has one line each: file, line, key, what is wrong, what to do."""

    def __init__(self, source: str, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n  ".join([f"the policy {source} cannot be used:", *problems]))


class Rule(_Frozen):
    """One rule: the calls it is about, and its gate."""

    tools: tuple[str, ...]  # fnmatch patterns, case-sensitive
    effects: tuple[str, ...]
    gate: Gate

    def matches(self, tool: str, does: str) -> bool:
        """Whether a call of `tool` with effect class `does` falls under this rule."""
        return does in self.effects and any(fnmatchcase(tool, each) for each in self.tools)

    def names(self, tool: str) -> bool:
        """Whether a pattern of this rule other than * fits the tool."""
        return any(each.strip("*") and fnmatchcase(tool, each) for each in self.tools)

    def covers(self) -> frozenset[str]:
        """The effect classes of which this rule takes every call, whatever the tool is called."""
        return frozenset(self.effects) if any(not each.strip("*") for each in self.tools) else frozenset()


class Policy(_Frozen):
    """A whole policy, read and checked; `parse` makes one."""

    source: str
    rules: tuple[Rule, ...]
    default: Ask | None  # None only where the rules leave no call that changes something to it
    asking: frozenset[str] = frozenset()  # tools that read, but more than is allowed unasked (Tool.asks)

    def gate(self, tool: str, does: str) -> Allow | Deny | Ask:
        """What holds for a call of `tool` with effect class `does` (read, write or destructive).

        The first matching rule applies; otherwise reads are allowed and all else asks. An effect class
        nobody knows counts as destructive, and is never allowed unasked. The tools in `asking` are allowed
        only by a rule that names them, not by one for all tools.
        """
        known = does in EFFECTS
        for rule in self.rules:
            fits = rule.matches(tool, does if known else "destructive")
            allows = rule.gate.verdict == "allow"
            if fits and not (allows and (not known or (tool in self.asking and not rule.names(tool)))):
                return rule.gate
        if does == "read" and tool not in self.asking:
            return Allow(rule="default")
        if self.default is None:
            return Deny(rule="default", reason=f"no rule names who may decide about the effect {does!r}")
        return self.default

    def asks(self) -> list[Ask]:
        """Every gate of this policy that asks people, in the order of the rules, the default last."""
        gates = [rule.gate for rule in self.rules]
        return [each for each in (*gates, self.default) if isinstance(each, Ask)]

    @property
    def digest(self) -> str:
        """SHA-256 of what the rules mean (hex): comments and layout do not change it."""
        return hashlib.sha256(self.model_dump_json(exclude={"source"}).encode()).hexdigest()


def parse(text: str, source: str = "policy") -> Policy:
    """Read a policy's TOML `text`, called `source` in messages. Raises PolicyError with all that is wrong."""
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
    rules: list[Rule] = []
    covered: set[str] = set()
    names = {"default"}
    for index, each in enumerate(written.rule):
        name = each.name or f"rule {index + 1}"
        if name in names:
            problem(("rule", index, "name"), f"the name {name!r} is taken; give each rule its own")
        names.add(name)
        for key, sentence in odd_keys(each):
            problem(("rule", index, key), sentence)
        if set(each.effect) <= covered:
            problem(("rule", index), "can never apply: an earlier rule takes every such call; move it up")
        gate: Gate | None = _ask(name, each, written.defaults)
        if each.verdict != "ask":
            gate = Allow(rule=name) if each.verdict == "allow" else Deny(rule=name, reason=each.reason or "")
        if gate is None:
            problem(("rule", index, "approvers"), "nobody could decide; name them here or under [defaults]")
            continue
        rules.append(Rule(tools=tuple(each.tool), effects=tuple(each.effect), gate=gate))
        covered |= rules[-1].covers()
    if default is None and not {"write", "destructive"} <= covered:
        remedy = 'add approvers = ["@your-group"] there, or a last [[rule]] for tool = "*"'
        problem(("defaults", "approvers"), f"nobody could decide about calls that no rule matches; {remedy}")
    return Policy(source=source, rules=tuple(rules), default=default)


def _ask(name: str, first: Options, second: Options) -> Ask | None:
    """The gate that `first` asks for, filled up from `second`; None where neither names approvers."""
    chosen = second.model_dump(exclude_none=True) | first.model_dump(exclude_none=True, include=set(ASK_KEYS))
    who: list[str] = chosen.pop("approvers", [])
    if not who:
        return None
    if "deadline" in chosen:
        chosen["deadline"] = seconds(chosen["deadline"])
    approvers = Approvers(
        users=tuple(dict.fromkeys(each for each in who if each[0] in "UW")),
        groups=tuple(dict.fromkeys(each[1:] for each in who if each[0] == "@")),
        channel="channel" in who,
    )
    return Ask(rule=name, approvers=approvers, **chosen)
