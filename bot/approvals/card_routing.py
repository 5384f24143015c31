"""Which cards a plan needs, and where they are posted.

There is one per place and approver list, with at most five calls on it, and one copy per
recipient.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from bot.agent import outputs
from bot.approvals.call_checks import CallRefusedError
from bot.cards import notices
from bot.policy.authority import AWAY_STATUS_EMOJI, Authority, LookupFailedError, LookupPendingError
from bot.policy.gates import Ask, Gate, load_gate
from storage import calls, inbox, outbox, sub_agents
from storage.record import Call, Message, Run, Transaction
from storage.states import CallStatus, MessageKind, RunSource

# Which approvers, or people asked a question, are away by their Slack status. Looks people up.

MAX_PEOPLE_CHECKED_FOR_ABSENCE = 6  # for more people than this, nobody is looked up
AwayPeople = tuple[
    tuple[str, str], ...
]  # user id, and when the absence ends: ISO 8601, "" if the status does not say


def list_away_people(authority: Authority, people: Collection[str]) -> AwayPeople:
    """Return which of these people have an "away" status, with its end; sorted by id.

    Statuses that have ended are included: see `filter_people_still_away`. Empty for more than
    MAX_PEOPLE_CHECKED_FOR_ABSENCE people, or if Slack cannot be asked.
    """
    if len(people) > MAX_PEOPLE_CHECKED_FOR_ABSENCE:
        return ()
    try:
        found = authority.directory.find_people(people)
    except LookupFailedError:
        return ()
    return tuple(
        (user, each.status_until.isoformat() if each.status_until else "")
        for user, each in sorted(found.items())
        if each.status in AWAY_STATUS_EMOJI
    )


def filter_people_still_away(
    away: Mapping[str, str] | AwayPeople, now: datetime
) -> list[tuple[str, datetime | None]]:
    """Return which of the people noted as away are still away at `now`, and until when."""
    each = away.items() if isinstance(away, Mapping) else away
    found = [(user, datetime.fromisoformat(until) if until else None) for user, until in each]
    return [(user, until) for user, until in found if until is None or now < until]


def find_sleepers(
    authority: Authority, people: Collection[str], now: datetime, deadline: datetime | None
) -> tuple[frozenset[str], datetime | None]:
    """Return the people who are asleep now; if all are, nobody, and when the first can be reached.

    They are asleep at night in their time zone, and while they want no notifications in Slack. The
    time is None if not all are asleep, or if all sleep until the deadline. Looks them up.
    """
    people_by_id = authority.directory.find_people(people).items()
    ends = ((user, each.find_end_of_night(now)) for user, each in people_by_id)
    mornings = {user: end for user, end in ends if end is not None}
    for user, (start, end) in authority.directory.find_quiet_hours(people).items():
        if start <= now < end:
            mornings[user] = max(end, mornings.get(user, end))
    if not people or mornings.keys() != set(people):
        return frozenset(mornings), None
    first_morning = min(mornings.values())
    return frozenset(), None if deadline and deadline <= first_morning else first_morning


log = logging.getLogger("countersign.placement")
# a card is copied to at most this many direct messages; more approvers need a channel
MAX_PEOPLE_MESSAGED = 50
MAX_NAMES_PER_LINE = 20


class CardPlaceKind(StrEnum):
    """The kind of place that a card is posted to."""

    THREAD = "thread"  # the request's own
    CHANNEL = "channel"
    PEOPLE = "people"  # direct messages with the approvers


@dataclass(frozen=True, slots=True)
class CardPlace:
    """A place for a card: the request's thread, a channel, or the approvers' direct messages."""

    kind: CardPlaceKind
    targets: tuple[str, ...]  # one channel id, or user ids
    # handle and id of the user groups among the approvers, for mentioning them
    groups: tuple[tuple[str, str], ...] = ()
    away: AwayPeople = ()  # approvers who are away, for the card to say
    asleep: frozenset[str] = frozenset()  # people who get no line below a card they already have


def resolve_card_place(
    authority: Authority, run: Run, gate: Ask, editors: frozenset[str] = frozenset()
) -> CardPlace:
    """Return where the first approvers will see the card; `editors` have edited the call.

    Raises CallRefusedError when too few people could approve it, or Slack cannot be asked.
    """
    asker, channel = run.requester, run.channel
    try:
        first_approvers = gate.get_approvers_of_stages(gate.initial_stages, timedelta())
        candidates = authority.list_approver_candidates(
            gate, first_approvers, requester=asker, channel=channel
        )
        if gate.required_approvers > 1 or not authority.list_first_colleagues(
            candidates - editors, 1
        ):
            note = describe_missing_approvers(
                authority, gate, requester=asker, channel=channel, editors=editors
            )
            if note:
                raise CallRefusedError(outputs.no_approvers_output(note), note, tell=True)
        notified_people = list_notified_candidates(authority, run, gate, candidates, editors)
        place = resolve_card_place_for_people(authority, run, gate, notified_people)
        place = replace(place, groups=find_group_ids_of_gate(authority, gate))
        try:
            return replace(place, away=list_away_people(authority, notified_people - editors))
        except LookupPendingError:  # not worth waiting for: the next reminder will have it
            return place
    except LookupFailedError as error:
        log.warning("run %s: look-up of approvers failed: %s", run.id, error)
        raise CallRefusedError(
            outputs.APPROVER_LOOKUP_FAILED,
            "Slack could not be asked who may approve this",
            tell=True,
        ) from error


def list_notified_candidates(
    authority: Authority,
    run: Run,
    gate: Ask,
    named: frozenset[str],
    editors: frozenset[str] = frozenset(),
) -> frozenset[str]:
    """Return which of the first approvers (`named`, accounts unchecked) are notified of the call.

    Silent approvers are notified only if nobody else could approve it. Raises LookupFailedError.
    """
    first_approvers = gate.get_approvers_of_stages(gate.initial_stages, timedelta())
    if not first_approvers.silent:
        return named
    notified_people = authority.list_approver_candidates(
        gate, first_approvers.notified, requester=run.requester, channel=run.channel
    )
    return (
        notified_people if authority.list_first_colleagues(notified_people - editors, 1) else named
    )


def describe_missing_approvers(authority: Authority, gate: Ask, **known: Any) -> str:
    """Return why too few people could ever approve a call; "" if enough could.

    `known`: see Authority.count_missing_approvers. Raises LookupFailedError.
    """
    missing = authority.count_missing_approvers(gate, **known)
    if missing <= 0:
        return ""
    if gate.required_approvers == 1:
        return "none of its approvers can be reached"
    able = gate.required_approvers - missing
    short = f"{f'only {able}' if able > 0 else 'nobody'} can be reached"
    return f"it needs {gate.required_approvers} people to approve it, and {short}"


def find_group_ids_of_gate(authority: Authority, gate: Ask) -> tuple[tuple[str, str], ...]:
    """Return handle and id of each user group that the gate names and Slack knows.

    Raises LookupFailedError.
    """
    everybody = gate.get_stage_approvers(0, timedelta(seconds=gate.deadline)) | gate.approvers
    found = [(handle, authority.directory.find_group(handle)) for handle in everybody.groups]
    return tuple((handle, group.id) for handle, group in found if group)


def resolve_card_place_for_people(
    authority: Authority, run: Run, gate: Ask, named: Iterable[str]
) -> CardPlace:
    """Return where these people will see the card; raises LookupFailedError.

    That is the place the gate names if one of them is a member there; otherwise their direct
    messages, with those of the people who decide for them. No more people are looked up than
    needed.
    """
    kind, channel = CardPlaceKind.PEOPLE, None
    if gate.post_to == "thread":
        kind, channel = CardPlaceKind.THREAD, run.channel
    elif gate.post_to != "approvers":
        kind, channel = CardPlaceKind.CHANNEL, authority.directory.find_channel_id(gate.post_to)
    if channel and authority.list_first_colleagues(
        authority.directory.list_channel_members(channel) & set(named), 1
    ):
        return CardPlace(kind, (channel,))
    people_asked = authority.list_first_colleagues(named, MAX_PEOPLE_MESSAGED)
    besides = authority.list_delegates(people_asked) - {run.requester, *people_asked}
    return CardPlace(
        CardPlaceKind.PEOPLE,
        (*people_asked, *sorted(besides)[:MAX_PEOPLE_MESSAGED]),
    )


CALLS_PER_CARD = 5


@dataclass(frozen=True, slots=True)
class CallWithCardPlace:
    """A pending call with its gate and the place where it is asked."""

    call: Call
    gate: Ask
    place: CardPlace


def queue_cards(
    tx: Transaction, run: Run, plan_id: str, calls_with_places: Iterable[CallWithCardPlace]
) -> None:
    """Queue the cards of these calls; cards posted elsewhere are announced in the request's thread.

    Calls that are on cards already have to be withdrawn from them first.
    """
    routes: dict[str, list[CallWithCardPlace]] = {}
    for each in calls_with_places:
        key = json.dumps([each.place.kind, each.place.targets, build_card_routing_key(each.gate)])
        routes.setdefault(key, []).append(each)
    for group in routes.values():
        parts = [group[i : i + CALLS_PER_CARD] for i in range(0, len(group), CALLS_PER_CARD)]
        for number, part in enumerate(parts, 1):
            for target in part[0].place.targets:
                outbox.queue_message(
                    tx, build_card_message(run, plan_id, part, target, number, len(parts))
                )
        # without targets there is no place to announce: people are asked when the call escalates
        if group[0].place.kind is not CardPlaceKind.THREAD and group[0].place.targets:
            _notify_thread_of_place(tx, run, plan_id, parts, among=len(routes))


def _notify_thread_of_place(
    tx: Transaction,
    run: Run,
    plan_id: str,
    parts: Sequence[Sequence[CallWithCardPlace]],
    *,
    among: int,
) -> None:
    """Say in the request's thread where people decide; `among` is the number of places of the plan.

    In a direct message, which only the requester reads, the card itself is copied without its
    buttons.
    """
    first_call = parts[0][0]
    channel = first_call.place.kind is CardPlaceKind.CHANNEL
    where = first_call.place.targets[0] if channel else ""
    if not run.channel.startswith("D"):
        key = f"elsewhere:{first_call.call.id}:{first_call.call.revision}"
        outbox.queue_notice(
            tx, run, key, {"text": notices.card_posted_elsewhere_notice(where, part=among > 1)}
        )
        return
    here = replace(first_call.place, kind=CardPlaceKind.THREAD, targets=(run.channel,))
    for number, part in enumerate(parts, 1):
        shown = [each.call for each in part]
        row = _build_card_message(run, plan_id, shown, here, run.channel, (number, len(parts)))
        row.kind, row.key = MessageKind.COPY, f"copy:{row.key}"
        row.body = json.dumps({**json.loads(row.body), "asked_in": where})
        outbox.queue_message(tx, row)


def remove_calls_from_cards(tx: Transaction, plan_id: str, moved: set[str]) -> None:
    """Take these calls off their cards, because other people decide about them now."""
    for card in (*outbox.list_cards_of_plan(tx, plan_id), *outbox.list_card_copies(tx, plan_id)):
        body = outbox.parse_message_body(card)
        kept = [call for call in body["calls"] if call not in moved]
        if len(kept) < len(body["calls"]):
            outbox.update_message(tx, card, body=outbox.dump_message_body({**body, "calls": kept}))
            outbox.mark_cards_for_redraw(tx, plan_id)


def find_place_under_new_gate(
    authority: Authority, run: Run, call: Call, gate: Ask
) -> CardPlace | None:
    """Return where to ask about a call that gets this gate; None if it stays where it is.

    Looks people up. Raises CallRefusedError if nobody could approve it.
    """
    if build_card_routing_key(load_gate(call.gate)) == build_card_routing_key(gate):
        return None
    return resolve_card_place(authority, run, gate)


def move_call_to_place(tx: Transaction, run: Run, call: Call, gate: Ask, place: CardPlace) -> None:
    """Withdraw a call from the card that it is on, and ask about it with a card elsewhere."""
    remove_calls_from_cards(tx, call.plan_id, {call.id})
    queue_cards(tx, run, call.plan_id, [CallWithCardPlace(call, gate, place)])


def build_card_message(
    run: Run,
    plan_id: str,
    part: Sequence[CallWithCardPlace],
    target: str,
    number: int = 1,
    parts: int = 1,
) -> Message:
    """Return one copy of a card, as a message to a channel or a person."""
    return _build_card_message(
        run, plan_id, [each.call for each in part], part[0].place, target, (number, parts)
    )


def queue_line_under_cards(
    tx: Transaction,
    run: Run,
    call_with_place: CallWithCardPlace,
    key: str,
    text: str,
    notified: Collection[str],
) -> bool:
    """Queue a line below the call's card in each place; if a place has no card, queue the card.

    `notified`: see `outbox.queue_notice`. Returns whether a line is in the request's own thread.
    """
    call, said_here = call_with_place.call, False
    cards = outbox.list_cards_of_plan(tx, call.plan_id)
    on_it = [row for row in cards if call.id in outbox.parse_message_body(row)["calls"]]
    by_target = {row.key.rpartition(":")[2]: row for row in on_it}
    for target in call_with_place.place.targets:
        card = by_target.get(target)
        if card is None:
            outbox.queue_message(
                tx, build_card_message(run, call.plan_id, [call_with_place], target)
            )
        elif target not in call_with_place.place.asleep and (thread := card.thread_ts or card.ts):
            body = {"text": text, "mrkdwn": True, outbox.NOTIFIED_KEY: list(notified)}
            line = Message(
                key=f"{key}:{target}",
                kind=MessageKind.NOTICE,
                run_id=run.id,
                channel=card.channel,
                thread_ts=thread,
                body=outbox.dump_message_body(body),
            )
            outbox.queue_message(tx, line)
            said_here |= (card.channel, thread) == (run.channel, run.thread_ts)
    return said_here


def build_card_of_allowed_call(run: Run, plan_id: str, call: Call) -> Message:
    """Return the card of a call that needs no approval, for the request's thread."""
    return _build_card_message(
        run, plan_id, [call], CardPlace(CardPlaceKind.THREAD, (run.channel,)), run.channel, (1, 1)
    )


def _build_card_message(
    run: Run,
    plan_id: str,
    shown: Sequence[Call],
    place: CardPlace,
    target: str,
    part: tuple[int, int],
) -> Message:
    thread, first = place.kind is CardPlaceKind.THREAD, shown[0]
    body = {
        "calls": [each.id for each in shown],
        "groups": dict(place.groups),
        "away": dict(place.away),
        "elsewhere": not thread,
        "part": part[0],
        "parts": part[1],
    }
    return Message(
        key=f"card:{first.id}:{first.revision}:{target}",
        kind=MessageKind.CARD,
        run_id=run.id,
        plan_id=plan_id,
        channel=target,
        thread_ts=run.thread_ts if thread else "",
        body=json.dumps(body),
    )


def build_card_routing_key(gate: Gate) -> object:
    """Return the parts of a gate that decide who sees a card and where; None if nobody is asked."""
    fields = {"stages", "any_order", "escalation", "self_approval", "post_to", "veto"}
    return gate.model_dump(mode="json", include=fields) if isinstance(gate, Ask) else None


def update_away_people_on_cards(tx: Transaction, call: Call, away: AwayPeople) -> None:
    """Update the call's messages with who of the people asked is away now."""
    for card in outbox.list_cards_of_plan(tx, call.plan_id):
        body = outbox.parse_message_body(card)
        if call.id in body["calls"] and body.get("away", {}) != dict(away):
            outbox.update_message(
                tx, card, body=outbox.dump_message_body({**body, "away": dict(away)})
            )


# The reaction on the request's own message: one emoji for the state of its approvals.

WAITING_EMOJI = "hourglass_flowing_sand"
RAN_UNAPPROVED_EMOJI = "rotating_light"
HANDED_ON_EMOJI = "outbox_tray"
MIXED_EMOJI = "ballot_box_with_check"  # some calls succeeded, others were rejected or expired
UNWANTED_STATUSES = {CallStatus.REJECTED, CallStatus.EXPIRED}
EMOJI_BY_END_STATUS = {  # in order of precedence: the first status that any of the calls ended with
    CallStatus.UNKNOWN: "question",
    CallStatus.FAILED: "x",
    CallStatus.REJECTED: "no_entry_sign",
    CallStatus.EXPIRED: "alarm_clock",
    CallStatus.SUCCEEDED: "white_check_mark",
}


def choose_emoji_for_calls(found: Iterable[Call]) -> str:
    """Return the emoji name that marks a run with these calls; "" if people decided about none."""
    found = [call for call in found if call.asked_at]
    asked = [call for call in found if isinstance(load_gate(call.gate), Ask)]
    status = {call.status for call in asked}
    if CallStatus.UNKNOWN not in status and not all(map(calls.has_final_outcome, found)):
        return WAITING_EMOJI  # also while a question waits for its answer
    if any(map(calls.is_to_be_looked_at, asked)):
        return RAN_UNAPPROVED_EMOJI
    if asked and all(map(calls.was_left_unreported_by_program, asked)):
        return HANDED_ON_EMOJI
    bad = {CallStatus.UNKNOWN, CallStatus.FAILED} & status
    if not bad and CallStatus.SUCCEEDED in status and UNWANTED_STATUSES & status:
        return MIXED_EMOJI
    return next((name for ended, name in EMOJI_BY_END_STATUS.items() if ended in status), "")


def find_first_message_ts(tx: Transaction, run: Run) -> str:
    """Return the Slack ts of the message that the request begins with; "" if there is none."""
    asked_here = not run.channel.startswith("D") or not outbox.has_bot_begun_request_thread(tx, run)
    if run.source is RunSource.MESSAGE and asked_here:
        return inbox.get_request_message_ts(tx, run.id)
    return run.thread_ts  # the bot's own message: of a form, or of a request from a shared channel


def queue_status_emoji(tx: Transaction, run: Run, plan_id: str) -> None:
    """Queue an emoji reaction on the request's first message that shows its state.

    It is updated whenever the plan changes.
    """
    run = sub_agents.get_root_run(tx, run)
    ts = find_first_message_ts(tx, run)
    mark = Message(
        key=f"mark:{run.id}",
        kind=MessageKind.MARK,
        run_id=run.id,
        plan_id=plan_id,
        channel=run.channel,
        thread_ts=run.thread_ts,
        body=outbox.dump_message_body({"names": []}),
        ts=ts,
    )
    if not ts or outbox.queue_message(tx, mark):
        return
    if row := outbox.find_message_by_key(tx, mark.key):
        outbox.update_message(tx, row, plan_id=plan_id)
        outbox.mark_cards_for_redraw(tx, plan_id)
