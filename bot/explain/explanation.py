"""An explanation of what would happen to a call: which rule, why, who decides, who is told, when.

Nothing is written. The command line and the slash command say the same; only people, groups and
channels are written as usual in each place.
"""

from __future__ import annotations

import calendar
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel

from bot.approvals import grants
from bot.approvals.call_checks import Allowance
from bot.approvals.call_gates import in_mode
from bot.approvals.card_routing import PlaceKind, away_of, place_for, still_away
from bot.approvals.facts import Sources, facts_of, needed, with_sums
from bot.cards.request_sentences import ICONS
from bot.cards.slack_text import in_utc
from bot.policy.authority import Authority, LookupFailedError
from bot.policy.business_hours import BusinessHours
from bot.policy.condition_values import Facts
from bot.policy.gates import Allow, Approvers, Ask, Deny, Offer, Stage
from bot.tools import Tool
from bot.tools.arguments import dump_arguments
from countersign.durations import in_words
from storage.models import Run
from storage.states import Mode

if TYPE_CHECKING:
    from bot.policy.evaluation import Judgement


# The sources of an explanation.


@dataclass(frozen=True, slots=True)
class ExplanationSources:
    """What an explanation needs: the policy with its facts, who may decide, and the limits."""

    sources: Sources
    authority: Authority
    limits: Allowance


# How people, groups, channels and quoted texts are written, which differs from place to place.


class MentionStyle(Protocol):
    """How one place (Slack, a terminal) writes people, groups, channels and quoted texts."""

    def person(self, user: str) -> str:
        """Return the text for a person, given by id."""
        ...

    def group(self, handle: str) -> str:
        """Return the text for a user group, given by handle."""
        ...

    def channel(self, channel: str) -> str:
        """Return the text for a channel, given by id or as a policy names it."""
        ...

    def quoted(self, text: str) -> str:
        """Return the text for words that somebody else wrote."""
        ...


MOST_NAMES = 20  # people named in one line
DAYS_OFF = 3  # holidays named in one line
_REASONS = {
    "approve": "An approval needs a reason.",
    "reject": "A rejection needs a reason.",
    "always": "Approvals and rejections need a reason.",
}


class GateWords:
    """The lines that describe a gate which asks people: who decides, where, until when, edits."""

    def __init__(
        self, grounds: ExplanationSources, words: MentionStyle, run: Run, tool: Tool[Any], gate: Ask
    ) -> None:
        self._grounds, self._words, self._run, self._tool, self._gate = (
            grounds,
            words,
            run,
            tool,
            gate,
        )

    def lines(self) -> Iterator[str]:
        """Yield the whole description, line by line."""
        gate, steps = self._gate, len(self._gate.stages)
        for number, stage in enumerate(gate.stages):
            step = f"Step {number + 1} of {steps}" if steps > 1 else "Who decides"
            step += " (in any order)" if steps > 1 and gate.any_order else ""
            yield f"{step}: {self._stage(number, stage)}"
        yield self._terms()
        yield from self._shortage()
        yield f"Where: {self._place()}"
        yield f"When: {self._times()}"
        yield from self._escalations()
        yield f"Edits: {self._edits()}"
        for offer in gate.remember:
            yield f"May be remembered: {_offer(offer)}."
        if gate.once:
            yield f"An approval is remembered by itself: {_offer(gate.once)}."

    def _stage(self, number: int, stage: Stage) -> str:
        many = "one" if stage.quorum == 1 else f"{stage.quorum} different people"
        now = self._now(self._gate.approvers_of(number, timedelta()))
        return f"{many} of {self._named(stage.approvers)}{now}"

    def _named(self, who: Approvers) -> str:
        """Return the approvers as the policy names them."""
        words = self._words
        found = [words.group(each) for each in who.groups] + [
            words.person(each) for each in who.users
        ]
        if who.channel:
            here = (
                words.channel(self._run.channel)
                if self._run.channel
                else "the channel where it is asked"
            )
            found.append(f"the members of {here}")
        if who.requester:
            found.append("whoever asked")
        return ", ".join(found)

    def _now(self, who: Approvers) -> str:
        """Return who of these approvers could approve now, looked up, in parentheses."""
        run = self._run
        try:
            if who.channel and not run.channel:
                raise LookupFailedError("no channel was named")
            able = self._grounds.authority.able(
                self._gate, who, requester=run.requester, channel=run.channel
            )
        except LookupFailedError as error:
            return f" (who that is now is not known: {error})"
        return f" (now: {self._people(able)})" if able else " (now: nobody)"

    def _people(self, people: Collection[str]) -> str:
        now, authority = self._grounds.sources.clock.now(), self._grounds.authority
        marks = {user: " [away]" for user, _ in still_away(away_of(authority, people), now)}
        names = [self._words.person(each) + marks.get(each, "") for each in sorted(people)]
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        return ", ".join(names[:MOST_NAMES]) + more

    def _terms(self) -> str:
        gate = self._gate
        no = "One rejection ends it." if gate.veto == 1 else f"{gate.veto} rejections end it."
        own = (
            "Whoever asked may approve it."
            if gate.self_approval
            else "Nobody approves their own request."
        )
        if any(stage.approvers.requester for stage in gate.stages):
            own = "Whoever asked may approve where a step names them."
        return " ".join(filter(None, (own, no, _REASONS.get(gate.reasons))))

    def _shortage(self) -> Iterator[str]:
        run, gate, authority = self._run, self._gate, self._grounds.authority
        if not run.channel and any(stage.approvers.channel for stage in gate.stages):
            return
        try:
            missing = authority.shortage(gate, requester=run.requester, channel=run.channel)
            able = authority.eligible(gate, requester=run.requester, channel=run.channel)
        except LookupFailedError:
            return  # said above
        if missing > 0 or not able:
            short = (
                f"only {max(gate.people - missing, 0)} can be reached"
                if able
                else "nobody can be reached who could begin"
            )
            takes = f"it takes {gate.people} to approve, and {short}"
            yield f"⚠ This can’t be approved: {takes}."

    def _place(self) -> str:
        """Return where the card would be posted, as things are now.

        The policy's own word for the place if that is not known.
        """
        gate, run = self._gate, self._run
        asked = {
            "thread": "in the thread where it is asked",
            "approvers": "in the approvers' direct messages",
        }
        wanted = asked.get(gate.post_to) or f"in {self._words.channel(gate.post_to)}"
        if not run.channel and gate.post_to == "thread":
            return wanted
        try:
            able = self._grounds.authority.eligible(
                gate, requester=run.requester, channel=run.channel
            )
            place = place_for(self._grounds.authority, run, gate, able)
        except LookupFailedError as error:
            return f"{wanted} (whether the approvers see it there is not known: {error})"
        if place.kind is not PlaceKind.PEOPLE:
            return f"{wanted}; told are {self._people(able)}"
        instead = (
            "" if gate.post_to == "approvers" else f", because none of the approvers is {wanted}"
        )
        told = self._people(place.targets)
        return (
            f"in direct messages to {told}{instead}"
            if told
            else f"nowhere, for want of approvers ({wanted})"
        )

    def _times(self) -> str:
        gate = self._gate
        found = f"no answer within {in_words(gate.deadline)} is a no."
        if gate.reminders:
            found += f" Reminders after {', '.join(map(in_words, gate.reminders))}."
        if gate.hours:
            now = self._grounds.sources.clock.now()
            found += f" Only business hours count: {_open(gate.hours, now)}."
        return f"{found} An approval is good for {in_words(gate.good_for)}."

    def _escalations(self) -> Iterator[str]:
        for step in self._gate.escalation:
            who = f"{self._named(step.approvers)}{self._now(step.approvers)}"
            yield f"After {in_words(step.after)} without an answer these may decide as well: {who}"

    def _edits(self) -> str:
        gate, tool = self._gate, self._tool
        fields = [
            each
            for each in tool.arguments.model_fields
            if tool.editable is None or each in tool.editable
        ]
        if gate.editable is not None:
            fields = [each for each in fields if each in gate.editable]
        if gate.editors == "nobody" or not fields:
            return "nobody may edit."
        counts = "may" if gate.editor_counts else "may not"
        others = " and whoever asked" if gate.editors == "approvers_and_requester" else ""
        who = f"the approvers{others} may edit {', '.join(fields)}"
        return f"{who}; who edits {counts} approve what came of it."


def _open(hours: BusinessHours, now: datetime) -> str:
    """Return the business hours in words, with the next days off."""
    opens, closes = (f"{each // 60:02}:{each % 60:02}" for each in (hours.opens, hours.closes))
    days = ", ".join(calendar.day_abbr[each - 1] for each in hours.days)
    off = days_off_in_words(hours, now)
    return f"{days}, {opens} to {closes} in {hours.zone}" + (f", but not {off}" if off else "")


def days_off_in_words(hours: BusinessHours, now: datetime) -> str:
    """Return the next holidays within business hours and their calendar; "" for none within a year.

    "24 Dec 2026, 25 Dec 2026 (Christmas Day) and so on, by the calendar DE-BY"
    """
    found = hours.next_off(now, DAYS_OFF + 1)
    named = [
        f"{day.day} {day:%b %Y}" + (f" ({name})" if name else "") for day, name in found[:DAYS_OFF]
    ]
    more = " and so on" if len(found) > DAYS_OFF else ""
    whose = f", by the calendar {hours.calendar}" if hours.calendar else ""
    return f"{', '.join(named)}{more}{whose}" if named else ""


def _offer(offer: Offer) -> str:
    same = (
        "the same arguments"
        if offer.fields is None
        else f"the same {' and '.join(offer.fields) or 'tool'}"
    )
    where = "in the same thread" if offer.where == "thread" else "everywhere"
    return f"{same}, {where}, for {in_words(offer.lasts)}, at most {offer.uses} times"


def explain(
    grounds: ExplanationSources,
    words: MentionStyle,
    run: Run,
    tool: Tool[Any],
    args: BaseModel,
    *,
    sums: bool = True,
) -> list[str]:
    """Return the lines that explain a call that `run` would propose.

    `sums`: whether the rows can be read. What Slack cannot be asked about is said to be not known;
    nothing is raised for it.
    """
    facts = facts_of(grounds.sources, run, tool, args)
    gate: Allow | Deny | Ask | None = None
    mode = Mode.ASK
    if sums:
        with grounds.sources.store.read() as tx:
            facts = with_sums(tx, grounds.sources, run, tool, facts)
            judged = grounds.sources.policy.policy.judged(facts)
            gate, mode = in_mode(tx, grounds.sources, run, facts, judged.gate)
    else:
        judged = grounds.sources.policy.policy.judged(facts)
    who = f"asked by {words.person(run.requester) if run.requester else 'somebody'}"
    where = f" in {words.channel(run.channel)}" if run.channel else ""
    lines = [
        words.quoted(tool.effect_sentence(args)),
        f"The tool is {tool.name} ({_class(tool)}, {tool.risk} risk), {who}{where}.",
        "",
        _verdict(judged, words),
        *_trail(judged, words),
        *_by_mode(judged.gate, gate, mode, words),
    ]
    gate = gate or judged.gate
    if isinstance(gate, Ask):
        lines += _instead(grounds, words, run, tool, args, gate) if sums else []
        lines += ["", *GateWords(grounds, words, run, tool, gate).lines()]
    return lines + _unknown(facts, grounds, tool, words)


def _class(tool: Tool[Any]) -> str:
    """Return the tool's effect class, saying if it is only assumed."""
    return tool.does if tool.stated_effect else f"taken as {tool.does}, as it is not known"


def _by_mode(
    policy: Allow | Deny | Ask, gate: Allow | Deny | Ask | None, mode: Mode, words: MentionStyle
) -> Iterator[str]:
    """Yield what the mode of the place changes about the policy's verdict, if anything."""
    if gate is None or gate == policy:
        return
    yet = f"{ICONS[mode]} Yet {mode} mode holds here"
    match gate:
        case Deny(reason=reason):
            yield f"{yet}, and it is refused: {words.quoted(reason)}."
        case Ask() if isinstance(policy, Ask):
            yield f"{yet}: nothing is remembered, and it is asked each time."
        case _:
            yield f"{yet}: people are asked all the same, those of [defaults]."


def _instead(
    grounds: ExplanationSources,
    words: MentionStyle,
    run: Run,
    tool: Tool[Any],
    args: BaseModel,
    gate: Ask,
) -> Iterator[str]:
    """Yield what happens instead of asking: a saved approval applies, or a limit is reached."""
    with grounds.sources.store.read() as tx:
        given = grants.candidates(tx, grounds.sources, run, tool, gate, dump_arguments(args))
        reached = grounds.limits.on_asking(tx, run, 0)
    if grant := grants.find(grounds.authority, run, gate, given):
        by, until = words.person(grant.given_by), in_utc(grant.until)
        uses = f"{grant.uses} more {'time' if grant.uses == 1 else 'times'}"
        yield f"★ Yet it runs without asking: {by} had this remembered, until {until}, {uses}."
    elif reached:
        yield f"⚠ Just now nobody would be asked: {words.quoted(reached.note)}."


def _verdict(judged: Judgement, words: MentionStyle) -> str:
    gate = judged.gate
    named = any(each.rule == gate.rule for each in judged.tried)
    by = f"the rule {words.quoted(gate.rule)}" if named else "no rule: [defaults] hold"
    match gate:
        case Allow():
            by = by if named else "no rule: what only reads is allowed"
            return f"It runs without asking, by {by}."
        case Deny(reason=reason):
            return f"It is refused, by {by if named else 'no rule'}: {words.quoted(reason)}"
    also = " and ".join(words.quoted(each) for each in gate.added)
    adds = f" {also} {'adds' if len(gate.added) == 1 else 'add'} to it." if also else ""
    return f"People are asked, by {by}.{adds}"


def _trail(judged: Judgement, words: MentionStyle) -> Iterator[str]:
    """Yield a line for each rule that was tried; rules about other tools are only counted."""
    answers = {True: "applies", False: "does not apply", None: "cannot be told, so it applies"}
    added = getattr(judged.gate, "added", ())
    others = 0
    for each in judged.tried:
        if each.why == "it is about other tools":
            others += 1
            continue
        applied = each.rule == judged.gate.rule
        answer = answers[each.fits]
        if each.adds and each.fits is not False and each.rule in added:
            answer = "adds to it" if each.fits else "cannot be told, so it adds to it"
        elif each.fits is not False and not applied:
            idle = "has nothing to add" if each.adds else "another rule applies"
            answer = f"fits, but {idle}" if each.fits else "cannot be told"
        why = "" if each.why == "it matches" else f": {words.quoted(each.why)}"
        yield f"• {words.quoted(each.rule)} {answer}{why}"
    if others:
        yield f"• {others} {'rule is' if others == 1 else 'rules are'} about other tools"


def _unknown(
    facts: Facts, grounds: ExplanationSources, tool: Tool[Any], words: MentionStyle
) -> list[str]:
    missing = [
        words.group(handle) for handle, found in (facts.groups or {}).items() if found is None
    ]
    missing += [
        words.channel(name) for name, found in (facts.channels or {}).items() if found is None
    ]
    sums = facts.spent or {}
    missing += [
        f"what was spent with {each.tool}"
        for each in sorted(needed(grounds.sources.policy, tool).spent)
        if sums.get(each) is None
    ]
    return (
        ["", f"Not known: {', '.join(missing)}. What is not known never allows."] if missing else []
    )
