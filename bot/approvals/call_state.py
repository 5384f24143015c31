"""How far a call has come: its votes against its gate, how long it has waited, what is due next.

Only stored data is read; nobody is looked up.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any

from pydantic import ValidationError

from bot.policy.gates import DEFAULT_GOOD_FOR_SECONDS, Approvers, Ask, Deny, dump_gate, load_gate
from bot.policy.tally import Ballot, Tally, tally_ballots
from bot.tools import Preview, Registry, Table, Tool, ToolContext, tables
from bot.tools.arguments import load_arguments
from countersign.receipts import compute_subject_digest, encode_base64url
from storage import call_outputs, calls, grants, trail
from storage.columns import copy_row_with_changes
from storage.decisions import VoteCounter
from storage.digest import compute_digest_of_call, get_key_by_id_or_current, load_canonical_json
from storage.masking import mask_secrets
from storage.models import PURGED, Call, Revision, Run, Vote
from storage.states import CallStatus, CallVerb, VoteOutcome
from storage.transaction import Transaction

# How a call ended, and the sentence that says what it would do.


def find_outcome_reporter(tx: Transaction, call: Call) -> str:
    """Return the id of the person whose word is all that is known of a call's end; "" for none."""
    is_ended = call.status in (CallStatus.SUCCEEDED, CallStatus.FAILED)
    # the first check spares most calls the query
    is_reported = is_ended and call_outputs.is_person_report(call.output)
    return trail.find_outcome_reporter(tx, call) if is_reported else ""


def describe_call_effect(tools: Registry, tx: Transaction, call: Call) -> str:
    """Return the sentence that says what the call would do now; secrets are masked."""
    current = calls.find_revision(tx, call.id, call.revision)
    return describe_revision_effect(tools, call, current) if current else call.tool


def describe_revision_effect(tools: Registry, call: Call, revision: Revision) -> str:
    """Return the sentence that says what this revision of the call would do; secrets are masked."""
    return mask_secrets(describe_effect_for_approvers(tools, call, revision))


def describe_tool_change(tools: Registry, call: Call) -> str:
    """Return why a call's tool is not the one that people were shown; "" if it is."""
    if tools.find_tool_as_shown(call):
        return ""
    changed = "the tool has changed since this was shown"
    return changed if tools.find_tool_of_call(call) else "the tool is no longer there"


def describe_effect_for_approvers(tools: Registry, call: Call, revision: Revision) -> str:
    """Return what this revision would do, for approvers: only fields declared secret are masked."""
    tool = tools.find_tool_of_call(call)
    if tool is None:
        return f"{call.tool} (this tool is no longer there)"
    if revision.arguments == PURGED and tool.arguments.model_fields:
        return f"{tool.title} (what it was about was purged)"
    rows = re.match(r"rows=(\d+);", call.expects) if revision.number == call.revision else None
    counted = f": {tables.format_row_count(int(rows[1]))}" if rows else ""
    try:
        args = load_arguments(tool, revision.arguments)
        return tool.effect_sentence(args, json.loads(call.names)) + counted
    except ValidationError:
        return f"{tool.title} (its arguments no longer fit the tool)"


# The digest of a call: what is shown is what runs.


def compute_call_digest(
    key: bytes,
    run: Run,
    tool: Tool[Any],
    arguments: str,
    *,
    gate: str,
    revision: int,
    expects: str,
    key_id: str = "",
    effect: str | None = None,
) -> str:
    """Return the digest of what would run, for whom, under which gate and with which preview.

    It is made with the accepted key of that `key_id`, else with `key`, the one in use. `effect`:
    the template of the sentence that says what it does, the tool's if None.
    """
    return compute_digest_of_call(
        get_key_by_id_or_current(key, key_id),
        tool=tool.name,
        schema=tool.schema_digest(),
        arguments=arguments,
        requester=run.requester,
        team=run.team,
        gate=gate,
        revision=revision,
        expects=expects,
        effect=tool.effect if effect is None else effect,
    )


def compute_digest_of_shown_call(
    key: bytes, run: Run, tool: Tool[Any], shown: calls.CallWithVotes
) -> str:
    """Return the digest of what would run if the call were started as it is now stored.

    That of a call whose digest an earlier build made is without the sentence of what it does.
    """
    call = shown.call
    compute = partial(
        compute_call_digest,
        key,
        run,
        tool,
        shown.revision.arguments,
        gate=call.gate,
        revision=call.revision,
        expects=call.expects,
        key_id=call.key_id,
    )
    found = compute()
    return found if found == call.digest else compute(effect="")


def compute_next_revision_digest(
    tx: Transaction,
    key: bytes,
    run: Run,
    call: Call,
    tools: Registry,
    *,
    gate: str | None = None,
    expects: str | None = None,
) -> str:
    """Return the digest that the call's next revision would have with the same arguments.

    Such a revision is made when the call is asked about again or run again.

    `gate` and `expects` are the call's if None. "" if the tool or the current revision no longer
    exists.
    """
    tool, current = tools.find_tool_of_call(call), calls.find_revision(tx, call.id, call.revision)
    if tool is None or current is None:
        return ""
    return compute_call_digest(
        key,
        run,
        tool,
        current.arguments,
        gate=call.gate if gate is None else gate,
        revision=call.revision + 1,
        expects=call.expects if expects is None else expects,
        key_id=call.key_id,
    )


def compute_receipt_subject(
    key: bytes, call: Call, revision: Revision, number: int | None = None
) -> tuple[str, str]:
    """Return the nonce and the digest of what may run, for receipts and for what is signed.

    `number`: the revision number to use; None: that of `revision`. The nonce is 32 hex digits. It
    is made with the key of the call's digest, so it stays the same when the key is changed.
    """
    own = bytes(get_key_by_id_or_current(key, call.key_id))
    seed = hmac.digest(own, b"countersign receipts nonce", "sha256")
    about = f"{call.id} {number or revision.number}"
    nonce = hmac.digest(seed, about.encode(), "sha256").hex()[:32]
    arguments = load_canonical_json(revision.arguments)
    return nonce, compute_subject_digest(call.tool, arguments, nonce)


def compute_gate_digest(call: Call) -> str:
    """Return the SHA-256 of the call's gate in receipts and in what is signed, in base64url."""
    return encode_base64url(sha256(call.gate.encode()).digest())


def copy_call_with_gate(call: Call, gate: Ask) -> Call:
    """Return a copy of a call's row with another gate; the row itself is unchanged."""
    return copy_row_with_changes(call, gate=dump_gate(gate))


# The context that a tool gets with a call, and how the tool's preview is stored.


def build_tool_context(run: Run, call: Call, now: datetime, *, expects: str = "") -> ToolContext:
    """Return the ToolContext of a call; `expects` is what its preview said must hold."""
    return ToolContext(
        call.id,
        run.id,
        run.team,
        run.requester,
        run.channel,
        run.thread_ts,
        now,
        expects,
    )


def dump_preview_to_call_columns(seen: Preview) -> dict[str, Any]:
    """Return a preview as the columns of a call that store it."""
    rows = ""
    if seen.rows is not None:
        found = tables.convert_table_to_json_values(seen.rows)
        rows = json.dumps([found.title, found.columns, found.rows, found.more])
    return {
        "preview": seen.text,
        "preview_in_thread": seen.in_thread,
        "preview_rows": rows,
        "expects": seen.expects,
    }


def load_preview(call: Call) -> Preview:
    """Return the preview stored with the call, including which part of it everybody may read."""
    return Preview(
        call.preview, call.expects, call.preview_in_thread, rows=load_full_preview_table(call)
    )


def load_full_preview_table(call: Call) -> Table | None:
    """Return all rows of a table that the call's preview shows only in part; None otherwise."""
    if not call.preview_rows:
        return None
    title, names, rows, more = json.loads(call.preview_rows)
    return Table(title, tuple(names), tuple(map(tuple, rows)), more)


def tally_votes(gate: Ask, votes: Sequence[Vote]) -> Tally:
    """Return the tally of these votes, all of one revision, against the gate."""
    return tally_ballots(gate, convert_votes_to_ballots(votes))


def convert_votes_to_ballots(votes: Sequence[Vote]) -> list[Ballot]:
    """Return stored votes in the form that `tally_ballots` counts."""
    return [
        Ballot(
            each.counted_person,
            each.verb,
            each.stage,
            each.created_at,
            each.stages[1:],
            bool(each.passkey_id),
        )
        for each in votes
    ]


def list_approving_votes(votes: Sequence[Vote]) -> list[Vote]:
    """Return the approvals of people who have not rejected."""
    against = {each.counted_person for each in votes if each.verb is CallVerb.REJECT}
    return [
        each
        for each in votes
        if each.verb is CallVerb.APPROVE and each.counted_person not in against
    ]


def list_vote_digests_if_approved(shown: calls.CallWithVotes) -> list[str] | None:
    """Return the digests that a call's votes were given for; None if they do not approve it."""
    call, gate = shown.call, load_gate(shown.call.gate)
    # a saved approval stands for votes; whether it still holds is checked when the call starts
    if call.grant_id and isinstance(gate, Ask):
        return []
    if isinstance(gate, Deny) or (
        isinstance(gate, Ask) and tally_votes(gate, shown.votes).outcome is not VoteOutcome.APPROVED
    ):
        return None
    return [vote.digest for vote in shown.votes]


def find_break_glass_vote(votes: Sequence[Vote]) -> Vote | None:
    """Return the vote by which somebody ran the call without approval; None if nobody did."""
    return next((each for each in votes if each.verb is CallVerb.BREAK_GLASS), None)


def list_deciding_votes(votes: Sequence[Vote]) -> list[Vote]:
    """Return the votes by which a call runs: the approvals, or the vote to run it without any."""
    alone = find_break_glass_vote(votes)
    return [alone] if alone else list_approving_votes(votes)


def find_grant_author_id(tx: Transaction, call: Call) -> str:
    """Return the id of the person who gave the grant that the call runs on; "" for none."""
    grant = grants.find_grant(tx, call.grant_id) if call.grant_id else None
    return grant.given_by if grant else ""


def list_approvers_with_response_times(
    gate: Ask, call: Call, votes: Sequence[Vote]
) -> list[tuple[str, timedelta]]:
    """Return each approver, with how long the call had waited when they approved.

    Time is counted as the gate counts it.
    """
    return [
        (each.counted_person, measure_waiting_time(gate, call, each.created_at))
        for each in list_approving_votes(votes)
    ]


def list_signers(votes: Sequence[Vote]) -> frozenset[str]:
    """Return the people for whom a vote was cast that is signed with a passkey."""
    return frozenset(each.counted_person for each in votes if each.passkey_id)


def build_vote_counter(gate: Ask) -> VoteCounter:
    """Return `tally_votes` bound to this gate."""
    return partial(tally_votes, gate)


def count_missing_approvals(tx: Transaction, call: Call) -> int:
    """Return how many more people have to approve a pending call; 0 for any other call."""
    gate = load_gate(call.gate)
    if call.status is not CallStatus.PENDING or not isinstance(gate, Ask):
        return 0
    return gate.required_approvers - sum(
        map(
            len,
            tally_votes(gate, calls.list_votes_on_revision(tx, call.id, call.revision)).approved,
        )
    )


def map_delegators_to_delegates(votes: Sequence[Vote]) -> dict[str, str]:
    """Return the people who voted as delegates: the id of each by the person they voted for."""
    return {each.for_person: each.person for each in votes if each.for_person}


def measure_waiting_time(gate: Ask, call: Call, at: datetime) -> timedelta:
    """Return how long a call had waited at `at`; only business hours count if its gate sets any."""
    return gate.measure_waiting_time(call.asked_at or call.created_at, at)


def get_current_approvers(
    tx: Transaction, run: Run, call: Call, gate: Ask, stages: Iterable[int], now: datetime
) -> Approvers:
    """Return who may approve a call now in any of these stages, without who may not approve it."""
    waited, editors = measure_waiting_time(gate, call, now), calls.list_editors(tx, call.id)
    return gate.get_approvers_of_stages(stages, waited, run.requester, editors)


def list_people_ruled_out(
    gate: Ask, editors: Collection[str], votes: Sequence[Vote]
) -> frozenset[str]:
    """Return whose approval cannot count (any more), although they may be among the approvers."""
    voted = {who for vote in votes for who in (vote.person, vote.counted_person)}
    return frozenset(voted if gate.editor_counts else voted.union(editors))


def find_approval_expiry(call: Call) -> datetime | None:
    """Return when people's approval of a call expires; None if nobody has approved it.

    None, too, for a call that policy allows, which is judged again when it starts, and for one with
    a saved approval, which has an end of its own. But if somebody had an allowed call run again,
    that is an approval like any other.
    """
    return None if call.decided_at is None else call.decided_at + get_approval_lifetime(call)


def get_approval_lifetime(call: Call) -> timedelta:
    """Return how long people's approval of a call is valid."""
    gate = load_gate(call.gate)
    return timedelta(seconds=gate.good_for if isinstance(gate, Ask) else DEFAULT_GOOD_FOR_SECONDS)


def is_approval_expired(call: Call, now: datetime) -> bool:
    """Return whether people approved the call, but too long ago for it to start now."""
    end = find_approval_expiry(call)
    return end is not None and now > end


def find_next_look_time(
    gate: Ask, since: datetime, dealt_with: int, now: datetime
) -> tuple[int, datetime]:
    """Return the number of requests to look due by `now`, and the time of the next one.

    People are asked to look at a call that ran without approval: at once, at the times of the
    gate's reminders and escalation, and then every day. `since`: when it was run; `dealt_with`: how
    many requests were due before.
    """
    moments = [0, *sorted({*gate.reminders, *(step.after for step in gate.escalation)})]
    due, number = since, dealt_with
    while due <= now or number == dealt_with:
        number += 1
        days = max(0, number - len(moments) + 1)
        due = gate.compute_due_time(since, moments[min(number, len(moments) - 1)])
        due += timedelta(days=days)
    return number, due


def find_next_notification_time(
    gate: Ask, asked_at: datetime, dealt_with: int = 0
) -> datetime | None:
    """Return when the next reminder or escalation is due; None if none is left.

    `dealt_with` is how many were due before.
    """
    moments = gate.list_notification_delay_seconds()[dealt_with:]
    return gate.compute_due_time(asked_at, moments[0]) if moments else None
