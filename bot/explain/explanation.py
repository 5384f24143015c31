"""An explanation of what would happen to a call: by which rule, why, who decides, where and when.

Nothing is written. The command line and the slash command say the same; only people, groups and
channels are written as usual in each place.
"""

from __future__ import annotations

import calendar
import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from pydantic import BaseModel

from bot.approvals import call_gates, card_routing, grants
from bot.approvals.call_checks import UsageLimits
from bot.approvals.signatures import list_people_who_can_sign
from bot.cards import notices
from bot.cards.field_slots import build_slots
from bot.cards.sentences import ICONS
from bot.cards.slack_text import format_in_utc
from bot.policy.authority import Authority, LookupFailedError
from bot.policy.business_hours import BusinessHours, StartTime
from bot.policy.condition_values import Facts
from bot.policy.evaluation import Judgement
from bot.policy.gates import Allow, Approvers, Ask, Deny, Gate, GrantOffer, Stage
from bot.tools import Tool
from bot.tools.arguments import dump_arguments, restrict_editable_fields
from countersign.durations import format_duration
from storage.record import Run
from storage.states import ChannelMode


@dataclass(frozen=True, slots=True)
class ExplanationSources:
    """What an explanation needs: the policy with its facts, who may decide, and the limits."""

    sources: call_gates.PolicyFactSources
    authority: Authority
    limits: UsageLimits


class MentionStyle(Protocol):
    """How one place (Slack, a terminal) writes people, groups, channels and quoted texts."""

    def format_person(self, user: str) -> str:
        """Return the text for a person, given by id."""

    def format_group(self, handle: str) -> str:
        """Return the text for a user group, given by handle."""

    def format_channel(self, channel: str) -> str:
        """Return the text for a channel, given by id or as a policy names it."""

    def quote_text(self, text: str) -> str:
        """Return the text for words that somebody else wrote."""


MAX_LISTED_PEOPLE = 20  # per line
MAX_LISTED_HOLIDAYS = 3  # per line
_REASON_REQUIREMENT_TEXTS = {
    "approve": "An approval needs a reason.",
    "reject": "A rejection needs a reason.",
    "always": "Approvals and rejections need a reason.",
}


def describe_approvers(who: Approvers, words: MentionStyle, channel: str) -> str:
    """Return in words the approvers that a policy names, for a call asked in this channel."""
    found = [*map(words.format_group, who.groups), *map(words.format_person, who.users)]
    if who.channel:
        here = words.format_channel(channel) if channel else "the channel where it is asked"
        found.append(f"the members of {here}")
    if who.requester:
        found.append("the person who asked")
    return ", ".join(found) or "nobody"


@dataclass(frozen=True, slots=True)
class GateDescriber:
    """Describes a gate that asks people, in lines: who decides, where, until when, who may edit."""

    grounds: ExplanationSources
    words: MentionStyle
    run: Run
    tool: Tool[Any]
    gate: Ask

    def describe_gate(self, args: BaseModel) -> Iterator[str]:
        """Yield the lines that describe the whole gate of a call with these arguments."""
        gate, steps = self.gate, len(self.gate.stages)
        for number, stage in enumerate(gate.stages):
            step = f"Step {number + 1} of {steps}" if steps > 1 else "Who decides"
            step += " (in any order)" if steps > 1 and gate.any_order else ""
            yield f"{step}: {self._describe_stage(number, stage)}"
        yield self._describe_terms()
        yield from self._describe_shortage()
        yield f"Where: {self._describe_place()}"
        yield f"When: {self._describe_times()}"
        if gate.run_at:
            yield self._describe_start(gate.run_at)
        yield from self._describe_escalations()
        if who := gate.break_glass:
            now = self._describe_current_approvers(who, own=True)
            people = describe_approvers(who, self.words, self.run.channel)
            yield f"May run it without approval, with a reason: {people}{now}"
        yield f"Edits: {self._describe_edits(args)}"
        for offer in gate.remember:
            yield f"May be remembered: {_describe_offer(offer)}."
        if gate.once:
            yield f"An approval is remembered automatically: {_describe_offer(gate.once)}."

    def _describe_stage(self, number: int, stage: Stage) -> str:
        many = "one" if stage.quorum == 1 else f"{stage.quorum} different people"
        now = self._describe_current_approvers(self.gate.get_stage_approvers(number, timedelta()))
        also = notices.silent_approvers_suffix(
            [
                self.words.format_group(e[1:]) if e[0] == "@" else self.words.format_person(e)
                for e in stage.approvers.silent
            ]
        )
        signed = ", signed with a passkey" if stage.signature else ""
        who = describe_approvers(stage.approvers.notified, self.words, self.run.channel)
        return f"{many} of {who}{also}{signed}{now}"

    def _describe_current_approvers(self, who: Approvers, *, own: bool = False) -> str:
        """Return in parentheses which of the approvers `who`, looked up now, could decide.

        `own`: whether they may decide their own request, too.
        """
        gate = self.gate.model_copy(update={"self_approval": True}) if own else self.gate
        try:
            if who.channel and not self.run.channel:
                raise LookupFailedError("no channel was named")
            able = self._list_able(gate, who)
        except LookupFailedError as error:
            return f" (who that is now is not known: {error})"
        return f" (now: {self._describe_people(able)})" if able else " (now: nobody)"

    def _describe_people(self, people: Collection[str]) -> str:
        now, authority = self.grounds.sources.clock.now(), self.grounds.authority
        marks = {
            user: " [away]"
            for user, _ in card_routing.filter_people_still_away(
                card_routing.list_away_people(authority, people), now
            )
        }
        names = [self.words.format_person(each) + marks.get(each, "") for each in sorted(people)]
        more = (
            f" and {len(names) - MAX_LISTED_PEOPLE} more" if len(names) > MAX_LISTED_PEOPLE else ""
        )
        return ", ".join(names[:MAX_LISTED_PEOPLE]) + more

    def _describe_terms(self) -> str:
        gate = self.gate
        no = "One rejection ends it." if gate.veto == 1 else f"{gate.veto} rejections end it."
        own = "Nobody approves their own request."
        if gate.self_approval:
            own = "The person who asked may approve it, if listed."
        elif any(
            who.requester for who in (gate.approvers, *(e.approvers for e in gate.escalation))
        ):
            own = "The person who asked may approve only where “the person who asked” is listed."
        return " ".join(filter(None, (own, no, _REASON_REQUIREMENT_TEXTS.get(gate.reasons))))

    def _describe_shortage(self) -> Iterator[str]:
        run, gate, authority = self.run, self.gate, self.grounds.authority
        if not run.channel and any(stage.approvers.channel for stage in gate.stages):
            return
        try:
            short = card_routing.describe_missing_approvers(
                authority, gate, requester=run.requester, channel=run.channel
            )
            able = self._list_able(
                gate, gate.get_approvers_of_stages(gate.initial_stages, timedelta())
            )
        except LookupFailedError:
            return  # the failure is described above
        if short:
            yield f"⚠ This can’t be approved: {short}."
        elif not able:
            yield "⚠ Nobody can approve this until others may decide as well."

    def _describe_place(self) -> str:
        """Return where the card would be posted, as things are now.

        If that is not known, return the place that the policy names.
        """
        gate, run, authority = self.gate, self.run, self.grounds.authority
        place_texts = {
            "thread": "in the thread where it is asked",
            "approvers": "in the approvers' direct messages",
        }
        wanted_place = (
            place_texts.get(gate.post_to) or f"in {self.words.format_channel(gate.post_to)}"
        )
        if not run.channel and gate.post_to == "thread":
            return wanted_place
        try:
            first = gate.get_approvers_of_stages(gate.initial_stages, timedelta())
            candidates = authority.list_approver_candidates(
                gate, first, requester=run.requester, channel=run.channel
            )
            notified = card_routing.list_notified_candidates(authority, run, gate, candidates)
            able = authority.list_first_colleagues(notified, len(notified))
            place = card_routing.resolve_card_place_for_people(authority, run, gate, able)
        except LookupFailedError as error:
            return f"{wanted_place} (whether the approvers see it there is not known: {error})"
        if place.kind is not card_routing.CardPlaceKind.PEOPLE:
            return f"{wanted_place}; notified: {self._describe_people(able)}"
        instead = (
            ""
            if gate.post_to == "approvers"
            else f", because none of the approvers is {wanted_place}"
        )
        people = self._describe_people(place.targets)
        return (
            f"in direct messages to {people}{instead}"
            if people
            else f"nowhere, as there are no approvers ({wanted_place})"
        )

    def _describe_times(self) -> str:
        gate = self.gate
        text = f"no answer within {gate.describe_duration(gate.deadline)} is a no."
        due = gate.list_notification_delay_seconds()
        if reminders := [each for each in gate.reminders if each in due]:
            text += f" Reminders after {', '.join(map(gate.describe_duration, reminders))}."
        if due:
            text += (
                " It is urgent: people are reminded at night, too."
                if gate.urgent
                else " People are reminded at night only if the deadline is before their morning."
            )
        if gate.hours:
            now = self.grounds.sources.clock.now()
            text += f" Only business hours count: {_describe_business_hours(gate.hours, now)}."
        return f"{text} An approval is good for {format_duration(gate.good_for)}."

    def _describe_start(self, at: StartTime) -> str:
        following = at.find_next(self.grounds.sources.clock.now())
        return (
            f"Starts: at {at.describe_for_people()}; what is approved now, "
            f"{format_in_utc(following)}. Until then whoever may decide can stop it."
        )

    def _describe_escalations(self) -> Iterator[str]:
        for step in self.gate.escalation:
            if step.after >= self.gate.deadline:  # shortened by a rule that adds
                continue
            who = describe_approvers(step.approvers, self.words, self.run.channel)
            now = self._describe_current_approvers(step.approvers)
            after = self.gate.describe_duration(step.after)
            yield f"After {after} without an answer these may decide as well: {who}{now}"

    def _describe_edits(self, args: BaseModel) -> str:
        gate, tool = self.gate, restrict_editable_fields(self.tool, self.gate)
        slots = build_slots(tool, json.loads(dump_arguments(args)))
        fields = dict.fromkeys(slot.keys[0] for slot in slots if slot.editable and not slot.secret)
        if gate.editors == "nobody" or not fields:
            return "nobody may edit."
        counts = "may" if gate.editor_counts else "may not"
        others = " and the person who asked" if gate.editors == "approvers_and_requester" else ""
        who = f"the approvers{others} may edit {', '.join(fields)}"
        return f"{who}; the person who edits {counts} approve the result."

    def describe_grant_or_limit(self, args: BaseModel) -> Iterator[str]:
        """Yield what happens instead of asking: a saved approval applies, or a limit is reached."""
        grounds, words, run, gate = self.grounds, self.words, self.run, self.gate
        with grounds.sources.store.read() as tx:
            given = grants.list_candidate_grants(
                tx, grounds.sources, run, self.tool, gate, dump_arguments(args)
            )
            reached = grounds.limits.find_reached_asking_limit(tx, run, 0)
        if grant := grants.find_valid_grant(grounds.authority, run, gate, given):
            by, until = words.format_person(grant.given_by), format_in_utc(grant.until)
            uses = f"{grant.uses} more {'time' if grant.uses == 1 else 'times'}"
            saved = f"{by} saved an approval, until {until}, {uses}"
            yield f"★ It runs without asking, though: {saved}."
        elif reached:
            yield f"⚠ Right now nobody would be asked: {words.quote_text(reached.note)}."

    def describe_signers(self) -> Iterator[str]:
        """Yield a line on who can sign now with a valid passkey; nothing if nobody has to sign."""
        signed = [at for at, stage in enumerate(self.gate.stages) if stage.signature]
        sources, who = self.grounds.sources, self.gate.get_approvers_of_stages(signed, timedelta())
        if not signed or (who.channel and not self.run.channel):
            return
        terms, now = sources.policy.policy.passkeys, sources.clock.now()
        with sources.store.read() as tx:
            signers = list_people_who_can_sign(tx, self.run.team, terms, now, sources.host)
        with suppress(LookupFailedError):  # the failure is described above
            able = self._list_able(self.gate, who)
            names = [self.words.format_person(each) for each in sorted(able & signers)][
                :MAX_LISTED_PEOPLE
            ]
            yield f"Can sign now: {', '.join(names) or 'nobody, as no passkey of theirs counts'}."

    def _list_able(self, gate: Ask, who: Approvers) -> frozenset[str]:
        """Return those in `who` who could approve this request now; raises LookupFailedError."""
        return self.grounds.authority.list_able_approvers(
            gate, who, requester=self.run.requester, channel=self.run.channel
        )


def _describe_business_hours(hours: BusinessHours, now: datetime) -> str:
    opens, closes = (f"{each // 60:02}:{each % 60:02}" for each in (hours.opens, hours.closes))
    days = ", ".join(calendar.day_abbr[each - 1] for each in hours.days)
    off = describe_next_holidays(hours, now)
    return f"{days}, {opens} to {closes} in {hours.zone}" + (f", but not {off}" if off else "")


def describe_next_holidays(hours: BusinessHours, now: datetime) -> str:
    """Return the next holidays within business hours and their calendar; "" for none within a year.

    For example "24 Dec 2026, 25 Dec 2026 (Christmas Day) and so on, by the calendar DE-BY".
    """
    holidays = hours.list_next_holidays(now, MAX_LISTED_HOLIDAYS + 1)
    day_texts = [
        f"{day.day} {day:%b %Y}" + (f" ({name})" if name else "")
        for day, name in holidays[:MAX_LISTED_HOLIDAYS]
    ]
    more = " and so on" if len(holidays) > MAX_LISTED_HOLIDAYS else ""
    whose = f", by the calendar {hours.calendar}" if hours.calendar else ""
    return f"{', '.join(day_texts)}{more}{whose}" if day_texts else ""


def _describe_offer(offer: GrantOffer) -> str:
    same = (
        "the same arguments"
        if offer.fields is None
        else f"the same {' and '.join(offer.fields) or 'tool'}"
    )
    where = "in the same thread" if offer.where == "thread" else "everywhere"
    return f"{same}, {where}, for {format_duration(offer.lasts)}, at most {offer.uses} times"


def explain_call(
    grounds: ExplanationSources,
    words: MentionStyle,
    run: Run,
    tool: Tool[Any],
    args: BaseModel,
    *,
    sums: bool = True,
) -> list[str]:
    """Return the lines that explain a call that `run` would propose.

    `sums`: whether the database can be read; without it, sums, the channel's mode, saved approvals,
    limits and passkeys are left out. If Slack cannot be asked about something, the lines say that
    this is not known.
    """
    facts = call_gates.load_policy_facts(grounds.sources, run, tool, args)
    judged = grounds.sources.policy.policy.judge_call(facts)
    gate, mode = judged.gate, ChannelMode.ASK
    if sums:
        with grounds.sources.store.read() as tx:
            facts = call_gates.add_spending_sums_to_facts(tx, grounds.sources, run, tool, facts)
            judged = grounds.sources.policy.policy.judge_call(facts)
            gate, mode = call_gates.apply_channel_mode_to_gate(
                tx, grounds.sources, run, facts, judged.gate
            )
    who = f"asked by {words.format_person(run.requester) if run.requester else 'somebody'}"
    where = f" in {words.format_channel(run.channel)}" if run.channel else ""
    does = tool.does if tool.declared_effect else f"taken as {tool.does}, as it is not known"
    lines = [
        words.quote_text(tool.effect_sentence(args)),
        f"The tool is {tool.name} ({does}, {tool.risk} risk), {who}{where}.",
        "",
        *describe_judgement(judged, words),
        *_describe_freezes(grounds.sources, facts),
        *_describe_mode_change(judged.gate, gate, mode, words),
    ]
    if isinstance(gate, Ask):
        asked = GateDescriber(grounds, words, run, tool, gate)
        lines += asked.describe_grant_or_limit(args) if sums else []
        lines += ["", *asked.describe_gate(args)]
        lines += asked.describe_signers() if sums else []
    return lines + _describe_unknown_facts(facts, grounds, tool, words)


def _describe_freezes(sources: call_gates.PolicyFactSources, facts: Facts) -> Iterator[str]:
    calendar = sources.policy.policy.calendar
    for each in calendar.list_current_freezes(facts.now) if calendar and facts.now else ():
        yield f"• In force is the freeze {each.name}, until {format_in_utc(each.ends)}"


def _describe_mode_change(
    policy: Gate, gate: Gate, mode: ChannelMode, words: MentionStyle
) -> Iterator[str]:
    """Yield a line if the channel's mode (strict, observe) changes the verdict of the policy."""
    if gate == policy:
        return
    yet = f"{ICONS[mode]} But {mode} mode applies here"
    match gate:
        case Deny(reason=reason):
            yield f"{yet}, and it is refused: {words.quote_text(reason)}."
        case Ask() if isinstance(policy, Ask):
            yield f"{yet}: nothing is remembered, and people are asked each time."
        case _:
            yield f"{yet}: people are asked all the same, those of [defaults]."


def describe_judgement(judged: Judgement, words: MentionStyle) -> list[str]:
    """Return the verdict on a call in words, and a line for each rule that was tried."""
    owners = (f"• {words.quote_text(each)}" for each in judged.notes)
    return [_describe_verdict(judged, words), *_describe_tried_rules(judged, words), *owners]


def _describe_verdict(judged: Judgement, words: MentionStyle) -> str:
    gate = judged.gate
    named = any(each.rule == gate.rule for each in judged.tried)
    by = f"the rule {words.quote_text(gate.rule)}" if named else "no rule: [defaults] apply"
    match gate:
        case Allow():
            by = by if named else "no rule: what only reads is allowed"
            return f"It runs without asking, by {by}."
        case Deny(reason=reason):
            return f"It is refused, by {by if named else 'no rule'}: {words.quote_text(reason)}"
    also = " and ".join(words.quote_text(each) for each in gate.added)
    adds = f" {also} {'adds' if len(gate.added) == 1 else 'add'} to it." if also else ""
    return f"People are asked, by {by}.{adds}"


def _describe_tried_rules(judged: Judgement, words: MentionStyle) -> Iterator[str]:
    """Yield a line for each rule that was tried; rules about other tools are only counted."""
    answers = {True: "applies", False: "does not apply", None: "not known, so it applies"}
    added = getattr(judged.gate, "added", ())
    others = 0
    for each in judged.tried:
        if each.why == "it is about other tools":
            others += 1
            continue
        applied = each.rule == judged.gate.rule
        answer = answers[each.fits]
        if each.adds and each.fits is not False and each.rule in added:
            answer = "adds to it" if each.fits else "not known, so it adds to it"
        elif each.fits is not False and not applied:
            idle = each.idle or ("has nothing to add" if each.adds else "another rule applies")
            answer = f"fits, but {idle}" if each.fits else "not known"
        why = "" if each.why == "it matches" else f": {words.quote_text(each.why)}"
        yield f"• {words.quote_text(each.rule)} {answer}{why}"
    if others:
        yield f"• {others} {'rule is' if others == 1 else 'rules are'} about other tools"


def _describe_unknown_facts(
    facts: Facts, grounds: ExplanationSources, tool: Tool[Any], words: MentionStyle
) -> list[str]:
    groups, channels, sums = facts.groups or {}, facts.channels or {}, facts.spent or {}
    missing = [words.format_group(each) for each, value in groups.items() if value is None]
    missing += [words.format_channel(each) for each, value in channels.items() if value is None]
    missing += [
        f"what was spent with {each.tool}"
        for each in sorted(
            call_gates.get_lookups_needed_by_rules(grounds.sources.policy, tool).spent
        )
        if sums.get(each) is None
    ]
    sentence = f"Not known: {', '.join(missing)}. What is not known never allows."
    return ["", sentence] if missing else []
