"""Which cards a plan needs: one a place and approver list, five calls each, a copy a recipient."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bot.approvals.cards.absence import Away
from bot.approvals.cards.placement import Place, PlaceKind
from bot.messages.sentences import notices
from bot.policy.gates import Ask, Gate
from storage import outbox
from storage.models import Call, Message, Run
from storage.states import MessageKind
from storage.transaction import Transaction

CALLS_PER_CARD = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """A pending call, the gate that asks, and the place where it is asked."""

    call: Call
    gate: Ask
    place: Place


def put_cards(tx: Transaction, run: Run, plan_id: str, asked: Iterable[Asked]) -> None:
    """Put the cards of these calls in the outbox; the thread is told when they go elsewhere.

    Calls that stand on cards already are withdrawn from them before.
    """
    routes: dict[str, list[Asked]] = {}
    for each in asked:
        key = json.dumps([each.place.kind, each.place.targets, route(each.gate)])
        routes.setdefault(key, []).append(each)
    for group in routes.values():
        parts = [group[i : i + CALLS_PER_CARD] for i in range(0, len(group), CALLS_PER_CARD)]
        for number, part in enumerate(parts, 1):
            for target in part[0].place.targets:
                outbox.put(tx, card_row(run, plan_id, part, target, number, len(parts)))
        # without any target, people come in by an escalation
        if group[0].place.kind is not PlaceKind.THREAD and group[0].place.targets:
            _tell_where(tx, run, plan_id, parts, among=len(routes))


def _tell_where(
    tx: Transaction, run: Run, plan_id: str, parts: Sequence[Sequence[Asked]], *, among: int
) -> None:
    """Tell the request's thread where people decide; `among`: in so many places about the plan.

    In a direct message, where only who asked reads along, by the card itself, without its buttons.
    """
    first = parts[0][0]
    channel = first.place.kind is PlaceKind.CHANNEL
    where = first.place.targets[0] if channel else ""
    if not run.channel.startswith("D"):
        key = f"elsewhere:{first.call.id}:{first.call.revision}"
        outbox.notice(tx, run, key, {"text": notices.card_elsewhere(where, part=among > 1)})
        return
    here = replace(first.place, kind=PlaceKind.THREAD, targets=(run.channel,))
    for number, part in enumerate(parts, 1):
        shown = [each.call for each in part]
        row = _row(run, plan_id, shown, here, run.channel, (number, len(parts)))
        row.kind, row.key = MessageKind.COPY, f"copy:{row.key}"
        row.body = json.dumps({**json.loads(row.body), "asked_in": where})
        outbox.put(tx, row)


def withdraw(tx: Transaction, plan_id: str, moved: set[str]) -> None:
    """Take these calls off their cards, which name people who no longer decide about them."""
    for card in (*outbox.cards(tx, plan_id), *outbox.copies(tx, plan_id)):
        body = outbox.body(card)
        kept = [call for call in body["calls"] if call not in moved]
        if len(kept) < len(body["calls"]):
            outbox.change(tx, card, body=outbox.dump({**body, "calls": kept}))
            outbox.redraw(tx, plan_id)


def card_row(
    run: Run, plan_id: str, part: Sequence[Asked], target: str, number: int = 1, parts: int = 1
) -> Message:
    """Make one copy of a card, for a channel or a person."""
    return _row(run, plan_id, [each.call for each in part], part[0].place, target, (number, parts))


def unasked_card(run: Run, plan_id: str, call: Call) -> Message:
    """Make the card of an unasked call, in the request's thread, where its requester sees it."""
    return _row(run, plan_id, [call], Place(PlaceKind.THREAD, (run.channel,)), run.channel, (1, 1))


def _row(
    run: Run, plan_id: str, shown: Sequence[Call], place: Place, target: str, part: tuple[int, int]
) -> Message:
    thread, first = place.kind is PlaceKind.THREAD, shown[0]
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


def route(gate: Gate) -> object:
    """Return what decides who sees a card, and where."""
    fields = {"stages", "any_order", "escalation", "self_approval", "post_to", "veto"}
    return gate.model_dump(mode="json", include=fields) if isinstance(gate, Ask) else None


def note_away(tx: Transaction, call: Call, away: Away) -> None:
    """Have the call's messages say who of those that may decide, or answer, is away by now."""
    for card in outbox.cards(tx, call.plan_id):
        body = outbox.body(card)
        if call.id in body["calls"] and body.get("away", {}) != dict(away):
            outbox.change(tx, card, body=outbox.dump({**body, "away": dict(away)}))
