"""What must be true in the end, from the record, the local Slack and the tools' own ledger."""

from __future__ import annotations

import json
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

from sqlalchemy import select
from sqlmodel import col

from bot.policy.gates import ADD_PASSKEY
from slack_sandbox.server import Sandbox
from storage.examination import examine_audit_and_rows
from storage.models import Audit, Call, Delivery, Message, Run, Vote
from storage.passkeys import Passkey, SigningLink, VoteSignature
from storage.states import (
    DRAWN_MESSAGE_KINDS,
    CallStatus,
    DeliveryStatus,
    MessageStatus,
    SigningLinkKind,
)
from storage.store import Store
from storage.trail import AuditHeadFile, audit_head_file_path
from storage.transaction import fetch_rows
from tests.model_stand_in.planner import StrictPlanner
from tests.proof.crash.stories import Story
from tests.proof.crash.tools import Ledger
from tests.proof.crash.world import World
from tests.runs import promises
from tests.stories.messages import elements

PENDING, UNKNOWN = CallStatus.PENDING, CallStatus.UNKNOWN
DECIDES = {
    **dict.fromkeys(("approve", "approve_all", "edit", "reject_now", "choose_1"), PENDING),
    **dict.fromkeys(("resolve_done", "resolve_not_done", "run_again"), UNKNOWN),
}  # buttons that decide only while the call, or one of its plan, has this status


class InspectedWorld(Protocol):
    """A local Slack, a stand-in for the model, a record and a ledger."""

    ledger: Ledger

    @property
    def slack(self) -> Sandbox: ...

    @property
    def planner(self) -> StrictPlanner: ...

    @property
    def database(self) -> Path: ...

    def all(self, model: type[Any]) -> list[Any]: ...


def list_violations(story: Story, world: World) -> list[str]:
    """Everything that breaks a promise; nobody works any more."""
    store = world.store()
    try:
        found = [*_check_effects(story, world), *of_slack(world), *of_the_record(store, world)]
        found += [*_check_signatures(world), *_check_passkeys(world)]
    finally:
        store.close()
    return found


def _check_signatures(world: World) -> Iterator[str]:
    """Each signed vote must have its signature and one used link; no other signature may exist."""
    votes = {(v.call_id, v.revision, v.person, v.verb) for v in world.all(Vote) if v.passkey_id}
    kept = [(s.call_id, s.revision, s.person, s.verb) for s in world.all(VoteSignature)]
    links = [each for each in world.all(SigningLink) if each.used_at is not None]
    used = [each for each in links if each.kind is SigningLinkKind.SIGN]
    if sorted(votes) != sorted(kept) or len(used) != len(kept):
        yield f"{len(votes)} signed votes have {len(kept)} signatures by {len(used)} links"
    plain = {
        each.id for each in world.all(Call) if each.tool == ADD_PASSKEY
    }  # calls that added a first passkey
    unsigned = [v for v in world.all(Vote) if not v.passkey_id and v.call_id not in plain]
    if "signature" in world.policy and unsigned:
        yield "a vote was cast that nobody has signed"


def _check_passkeys(world: World) -> Iterator[str]:
    """Each used link must have added one passkey, which counts once, by a call that has run."""
    links = [each for each in world.all(SigningLink) if each.kind is SigningLinkKind.ENROL]
    used = [each for each in links if each.used_at is not None]
    told = [each for each in world.all(Audit) if each.event.startswith("passkey.")]
    events = Counter((each.event, json.loads(each.data).get("passkey")) for each in told)
    added = [passkey for event, passkey in events.elements() if event == "passkey.added"]
    if used and (len(used), len(added)) != (1, 1):
        yield f"{len(used)} links have added {len(added)} passkeys"
    done = {each.id for each in world.all(Call) if each.status is CallStatus.SUCCEEDED}
    for row in world.all(Passkey):
        times = events["passkey.counts", row.id]
        if row.call_id and (times != 1 or row.call_id not in done):
            yield f"passkey {row.id} counts by a call that has not run, or {times} times"


def _check_effects(story: Story, world: World) -> Iterator[str]:
    """No effect may happen twice, and none without enough votes committed before."""
    lines = world.ledger.lines()
    for text, times in Counter(line["text"] for line in lines).items():
        if times > story.may.get(text, 0):
            yield f"“{text}” was done {times} times"
    for line in lines:
        record = line["record"]
        name = f"{line['tool']} “{line['text']}”"
        if record["status"] != CallStatus.RUNNING:
            yield f"{name} was done while its call was {record['status']}"
        if record["arguments"] != {"text": line["text"]}:
            yield f"{name} was done, and {record['arguments']} was shown"
        agreed = story.allowed & set(record["agreed"])
        if not (record["allowed"] or record["grant"] or len(agreed) >= story.needs):
            yield f"{name} was done by the votes of {sorted(agreed)} alone"


def of_slack(world: InspectedWorld) -> Iterator[str]:
    """No acknowledged delivery may be lost; each message must be in Slack once and up to date."""
    stored = {row.key: row for row in world.all(Delivery)}
    left = [row for row in stored.values() if row.status is not DeliveryStatus.DONE]
    yield from (f"delivery {row.key} is {row.status}: {row.note}" for row in left)
    messages: list[Message] = world.all(Message)
    yield from _list_lost(world, stored)
    yield from _check_messages(world, messages)
    for row in messages:
        if row.kind in DRAWN_MESSAGE_KINDS and (row.status, row.shown) != (
            MessageStatus.SENT,
            row.wanted,
        ):
            yield f"the card {row.key} is {row.status}, shows {row.shown} and not {row.wanted}"


def _check_messages(world: InspectedWorld, messages: list[Message]) -> Iterator[str]:
    """Each message of ours must belong to one row, once, and have no outdated button."""
    known, proposed = {row.ts for row in messages}, world.all(Call)
    live = {(name, call.status) for call in proposed for name in (call.id, call.plan_id)}
    keys: Counter[str] = Counter()
    for message in _list_posted(world):
        key = ((message.metadata or {}).get("event_payload") or {}).get("key", "")
        keys[key] += bool(key)
        if key and message.ts not in known:
            yield f"the message {key} stands in Slack, and no row knows of it"
        if message.stream and message.stream.state == "in_progress":
            yield f"the stream {message.ts} is open for ever"
        for element in elements(message.body):
            wanted = DECIDES.get(element.get("action_id", ""))
            if wanted and (element["value"].partition(":")[0], wanted) not in live:
                yield f"a button {element['action_id']} of {message.ts} decides nothing any more"
    yield from (f"the message {key} stands there {n} times" for key, n in keys.items() if n > 1)


def _list_posted(world: InspectedWorld) -> list[Any]:
    state = world.slack.world
    with state.lock:
        everything = [each for place in state.messages.values() for each in place.values()]
        return [each for each in everything if each.app_id and not each.only_for]


def _list_lost(world: InspectedWorld, stored: dict[str, Delivery]) -> Iterator[str]:
    """Messages and clicks that were acknowledged and are not in the inbox."""
    said = {key.rsplit(":", 1)[-1] for key in stored}
    clicks = Counter(row.kind for row in stored.values())
    acknowledged = [d for d in world.slack.deliveries if d.ok]
    for each in acknowledged:
        event = each.event
        if event.get("type") == "app_mention" and event["ts"] not in said:
            yield f"the message {event['ts']} was acknowledged, and is lost"
    decided = {
        json.dumps(each.payload, sort_keys=True)  # two deliveries of one click count once
        for each in acknowledged
        if each.payload.get("type") == "block_actions"
        and each.payload["actions"][0]["action_id"] in ("approve", "approve_all", "choose_1")
    }
    if len(decided) > clicks["action"]:
        yield f"{len(decided)} clicks were acknowledged, and {clicks['action']} are there"


def of_the_record(store: Store, world: InspectedWorld) -> Iterator[str]:
    """The promises about the rows alone, the audit's chain, and what it says about other tables."""
    seen = Record(store, world)
    for check in (promises.check_promises, promises.check_all_ended):
        if wrong := _get_failure(check, seen):
            yield wrong
    noted = (
        None
        if store.is_multi_process
        else AuditHeadFile(audit_head_file_path(world.database), store.chain).read_head()
    )
    with store.read() as tx:
        examined = examine_audit_and_rows(
            tx, store.chain, noted, has_note=not store.is_multi_process
        )
    yield from examined.problems


def _get_failure(check: Callable[[Any], None], seen: Record) -> str:
    try:
        check(seen)
    except AssertionError as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{where.name}: {where.line} {str(error)[:600]}"
    return ""


class Record:
    """The rows as `tests.runs.promises` reads them."""

    def __init__(self, store: Store, world: InspectedWorld) -> None:
        self.store = store
        self.effects = Counter(line["call"] for line in world.ledger.lines())
        self.wrong: list[str] = []
        # the stand-in refuses a transcript in which a call has no output, or two
        self.model = SimpleNamespace(wrong=world.planner.refused)

    def all(self) -> tuple[list[Run], list[Call], list[Audit], list[Message]]:
        """Every run, call, audit row and message."""
        with self.store.read() as tx:
            return (
                fetch_rows(tx, Run, select(Run)),
                fetch_rows(tx, Call, select(Call)),
                fetch_rows(tx, Audit, select(Audit).order_by(col(Audit.seq))),
                fetch_rows(tx, Message, select(Message)),
            )
