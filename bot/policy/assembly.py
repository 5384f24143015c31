"""The rules and the default that a policy file means, put together from its entries. PURE; what
makes no sense as a whole is noted as a problem of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic_core import to_jsonable_python

from bot.policy.business_hours import DAYS, BusinessHours
from bot.policy.file import ASK_KEYS, Options, PolicyFile, RuleEntry, TemplateEntry
from bot.policy.gates import (
    Addition,
    Allow,
    Approvers,
    Ask,
    Deny,
    Escalation,
    Offer,
    Stage,
)
from bot.policy.lint import nonsense, odd_keys
from bot.policy.rules import Rule, Template
from bot.toml_file import Loc, Problems
from countersign.durations import DAY, seconds

# what verdict = "once" remembers: these very arguments
ONCE = Offer(where="everywhere", lasts=30 * DAY, uses=1000)


class Assembly:
    """Puts the rules of one file together, in order, and remembers what the earlier ones cover."""

    def __init__(self, written: PolicyFile, problems: Problems) -> None:
        """What is wrong is added to `problems`."""
        self._written = written
        self._problems = problems
        self._names = {"default"}
        self._covered: set[str] = set()  # the effects of which no later rule sees a call
        self._answered: set[str] = set()  # the effects of which no call is left to the default
        self._hours = self._business_hours()
        self.default = self._ask("default", written.defaults, Options())
        self.loosen = _approvers(written.modes.loosen) if written.modes.loosen else None

    def rules(self) -> tuple[Rule, ...]:
        """Return the rules in order; those that nobody could decide are left out, as problems."""
        defaults = self._written.defaults
        for key, sentence in nonsense(defaults, Options(), self.default):
            self._problems.add(("defaults", key), sentence)
        found = [self._rule(index, each) for index, each in enumerate(self._written.rule)]
        if self.default is None and not {"write", "destructive"} <= self._answered:
            self._problems.add(
                ("defaults", "approvers"),
                "nobody could decide about calls that no rule matches; "
                'add approvers = ["@your-group"] there, or a last [[rule]] for tool = "*"',
            )
        return tuple(rule for rule in found if rule is not None)

    def readers(self) -> Approvers:
        """Return who may look at any request's record."""
        readers = _approvers(self._written.readers or ())
        if readers.channel or readers.requester:
            self._problems.add(("readers",), "name people and groups only, whoever asked, anywhere")
        return readers

    def _rule(self, index: int, entry: RuleEntry) -> Rule | None:
        name = entry.name or f"rule {index + 1}"
        if name in self._names:
            sentence = f"the name {name!r} is taken; give each rule its own"
            self._problems.add(("rule", index, "name"), sentence)
        self._names.add(name)
        gate = self._gate(index, entry, name)
        if gate is None:
            sentence = "nobody could decide; name them here or under [defaults]"
            self._problems.add(("rule", index, "approvers"), sentence)
            return None
        rule = Rule(
            name=name,
            tools=tuple(entry.tool),
            effects=tuple(entry.effect),
            risks=tuple(entry.risk),
            channels=tuple(entry.channel),
            requesters=tuple(entry.requester),
            when=entry.when or "",
            gate=gate,
        )
        if not isinstance(gate, Addition):  # which leaves every call to other rules
            self._answered |= rule.covers()
        if not isinstance(gate, Addition | Deny):  # a later deny still wins
            self._covered |= rule.covers()
        return rule

    def _gate(
        self, index: int, entry: RuleEntry, name: str
    ) -> Allow | Deny | Ask | Addition | None:
        """Return what the entry decides, and note what makes no sense in it."""
        for key, sentence in odd_keys(entry):
            self._problems.add(("rule", index, key), sentence)
        if entry.verdict == "add":
            return self._addition(index, entry, name)
        asked = self._ask(name, entry, self._written.defaults)
        if entry.verdict in ("ask", "once"):
            for key, sentence in nonsense(entry, self._written.defaults, asked):
                self._problems.add(("rule", index, key), sentence)
        if set(entry.effect) <= self._covered and entry.verdict != "deny":
            sentence = "can never apply: an earlier rule takes every such call; move it up"
            self._problems.add(("rule", index), sentence)
        match entry.verdict:
            case "allow":
                heeds = entry.after_rejection or self._written.defaults.after_rejection
                return Allow(rule=name, after_rejection=heeds or "ask")
            case "deny":
                return Deny(rule=name, reason=entry.reason or "")
            case "once" if asked is not None:
                return asked.model_copy(update={"remember": (), "once": ONCE})
            case _:
                return asked

    def _addition(self, index: int, entry: RuleEntry, name: str) -> Addition:
        """Return what the entry adds, and note what can never come true of it."""
        defaults = self._written.defaults
        asking = entry.approvers is not None or entry.stages is not None
        ask = self._ask(name, entry, defaults) if asking else None
        late = {} if entry.deadline else {"reminders": None, "escalation": None}
        for key, sentence in nonsense(entry.model_copy(update=late), defaults, ask):
            self._problems.add(("rule", index, key), sentence)
        who = {"approvers", "quorum", "stages", "any_order", "business_hours"}  # in `ask` already
        said = ASK_KEYS - {"post_to", "remember"} - who
        own = entry.model_dump(exclude_none=True, include=set(said))
        own_word = entry.business_hours
        counted = defaults.business_hours if own_word is None else own_word
        hours = self._hours if counted else None
        for key in own.keys() & {"deadline", "good_for"}:
            own[key] = _seconds(own[key], hours if key == "deadline" else None)
        for key in ("self_approval", "editor_counts"):  # true is noted as odd already
            own[key] = False if own.get(key) is False else None
        own["reminders"] = _reminders(own.get("reminders", ()), hours)
        own["escalation"] = _escalation(own.get("escalation", ()), hours)
        if ask is not None:  # its own escalation is added only where it surely applies
            ask = ask.model_copy(update={"escalation": _escalation(_steps(defaults), ask.hours)})
        return Addition(rule=name, ask=ask, stages=ask.stages if ask else (), **own)

    def _ask(self, name: str, first: Options, second: Options) -> Ask | None:
        """Return the gate that `first` asks for, filled up from `second`; None without people."""
        own = first.model_dump(exclude_none=True, include=set(ASK_KEYS))
        chosen = second.model_dump(exclude_none=True, include=set(ASK_KEYS))
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
        hours = self._hours if chosen.pop("business_hours", False) else None
        for key in chosen.keys() & {"deadline", "good_for"}:
            chosen[key] = _seconds(chosen[key], hours if key == "deadline" else None)
        return Ask(
            rule=name,
            stages=tuple(
                Stage(approvers=_approvers(each["approvers"]), quorum=each["quorum"])
                for each in steps
            ),
            hours=hours,
            reminders=_reminders(chosen.pop("reminders", ()), hours),
            escalation=_escalation(chosen.pop("escalation", ()), hours),
            remember=tuple(
                Offer(**{**each, "lasts": seconds(each["lasts"])})
                for each in chosen.pop("remember", ())
            ),
            **chosen,
        )

    def _business_hours(self) -> BusinessHours | None:
        """Return what [hours] comes to; notes where it is missing, or comes to nothing."""
        written = self._written.hours
        if written is None:
            for loc, each in self._options():
                if each.business_hours:
                    sentence = "there is no [hours]; add it, with zone, opens and closes"
                    self._problems.add((*loc, "business_hours"), sentence)
            return None
        opens, closes = (
            int(text[:2]) * 60 + int(text[3:]) for text in (written.opens, written.closes)
        )
        if opens >= closes:
            self._problems.add(("hours", "closes"), "is not after opens; write a later time")
            return None
        if not any(each.business_hours for _, each in self._options()):
            sentence = "is used nowhere; write business_hours = true in a rule, or remove it"
            self._problems.add(("hours",), sentence)
        return BusinessHours(
            zone=written.zone,
            opens=opens,
            closes=closes,
            days=tuple(sorted(DAYS.index(each) + 1 for each in set(written.days))),
            holidays=tuple(sorted(set(written.holidays))),
            calendar=written.calendar or "",
        )

    def _options(self) -> Iterator[tuple[Loc, Options]]:
        """[defaults] and every rule, with where they stand."""
        yield ("defaults",), self._written.defaults
        for index, each in enumerate(self._written.rule):
            yield ("rule", index), each


def _steps(defaults: Options) -> list[dict[str, Any]]:
    return [each.model_dump() for each in defaults.escalation or ()]


def _seconds(written: str, hours: BusinessHours | None) -> int:
    """How long that is; a day of business hours is as long as they last."""
    found = seconds(written)
    return found // DAY * hours.day if hours and written.endswith("d") else found


def _reminders(written: Iterable[str], hours: BusinessHours | None) -> tuple[int, ...]:
    return tuple(sorted({_seconds(each, hours) for each in written}))


def _escalation(
    written: Iterable[dict[str, Any]], hours: BusinessHours | None
) -> tuple[Escalation, ...]:
    steps = [
        Escalation(after=_seconds(each["after"], hours), approvers=_approvers(each["approvers"]))
        for each in written
    ]
    return tuple(sorted(steps, key=lambda each: each.after))


def _approvers(who: Iterable[str]) -> Approvers:
    who = tuple(dict.fromkeys(who))
    return Approvers(
        users=tuple(each for each in who if each[0] in "UW"),
        groups=tuple(each[1:] for each in who if each[0] == "@"),
        channel="channel" in who,
        requester="requester" in who,
    )


def templates_of(entries: Sequence[TemplateEntry], problems: Problems) -> tuple[Template, ...]:
    """Return what a file prepares, in order; a title that stands twice is added to `problems`."""
    titles: set[str] = set()
    found = []
    for index, entry in enumerate(entries):
        if (title := entry.title.casefold()) in titles:
            sentence = f"the title {entry.title!r} is taken; give each template its own"
            problems.add(("template", index, "title"), sentence)
        titles.add(title)
        found.append(
            Template(
                title=entry.title,
                tool=entry.tool,
                fixed=to_jsonable_python(entry.fixed),
                who=None if entry.who is None else _approvers(entry.who),
                place=problems.place(("template", index)),
            )
        )
    return tuple(found)
