"""The modes that limit a channel's calls; what changes when a channel is shared or gets a new id.

The newest switch of a channel's mode counts; each is stored with its time and person.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import bindparam, func, or_, select, update
from sqlmodel import col

from storage import calls, moves, outbox, runs, trail, transcripts
from storage.grants import Grant
from storage.models import Delivery, Message, ModeSwitch, Run
from storage.states import CallStatus, ChannelMode, RunStatus
from storage.transaction import Transaction, fetch_first_row, insert_row

_MAX_DATETIME = datetime.max.replace(tzinfo=UTC)
EVERYWHERE = ""  # in place of a channel's id: all conversations with the bot
_SELECT_NEWEST_SWITCH = (
    select(ModeSwitch)
    .where(col(ModeSwitch.team) == bindparam("team_"))
    .where(col(ModeSwitch.channel) == bindparam("channel_"))
    .order_by(col(ModeSwitch.seq).desc())
    .limit(1)
)
_SELECT_DELIVERY_CHANNELS = select(col(Delivery.channel)).where(
    col(Delivery.run_id) == bindparam("run_")
)
# where the run and earlier requests of its thread were made: the model reads those as well
_SELECT_ASKED_IN_CHANNELS = select(col(Run.asked_in)).where(
    or_(
        col(Run.id) == bindparam("run_"),
        (col(Run.team) == bindparam("team_"))
        & (col(Run.channel) == bindparam("channel_"))
        & (col(Run.thread_ts) == bindparam("thread_"))
        & (col(Run.thread_ts) != ""),
    )
)
_channel = col(ModeSwitch.channel)
_SELECT_MODES_OF_RUN = select(col(ModeSwitch.mode)).where(
    col(ModeSwitch.seq).in_(
        select(func.max(col(ModeSwitch.seq)))
        .where(col(ModeSwitch.team) == bindparam("team_"))
        .where(col(ModeSwitch.at) <= bindparam("until_"))
        .where(
            or_(
                _channel.in_([bindparam("channel_"), EVERYWHERE]),
                _channel.in_(_SELECT_DELIVERY_CHANNELS),
                _channel.in_(_SELECT_ASKED_IN_CHANNELS),
            )
        )
        .group_by(_channel)
    )
)


def find_newest_mode_switch(tx: Transaction, team: str, channel: str) -> ModeSwitch | None:
    """Return the newest switch of the mode that limits a channel's calls; None if there is none."""
    return fetch_first_row(tx, ModeSwitch, _SELECT_NEWEST_SWITCH, team_=team, channel_=channel)


def get_current_channel_mode(tx: Transaction, team: str, channel: str) -> ChannelMode:
    """Return the mode that limits a channel's calls; ASK if it was never switched."""
    found = find_newest_mode_switch(tx, team, channel)
    return found.mode if found else ChannelMode.ASK


def list_channel_modes_limiting_run(
    tx: Transaction, run: Run, until: datetime | None = None
) -> frozenset[ChannelMode]:
    """Return the modes that limit a run: of its channel, of where it was asked, and of everywhere.

    The channels differ if the run was asked in a shared channel and goes on in private, or was
    asked with a form or by a program and could not begin in that channel. Its sub-agents' runs, and
    later requests in its thread, obey the same modes. ASK is always among them: it is the mode of a
    channel that was never switched. `until`: the modes as they were at that moment; None: as they
    are.
    """
    place = {"team_": run.team, "channel_": run.channel, "run_": run.id, "thread_": run.thread_ts}
    return frozenset(
        (
            ChannelMode.ASK,
            *tx.scalars(_SELECT_MODES_OF_RUN, {**place, "until_": until or _MAX_DATETIME}),
        )
    )


def switch_mode(
    tx: Transaction, team: str, channel: str, mode: ChannelMode, person: str, *, at: datetime
) -> None:
    """Store a switch of the mode that limits a channel's calls, with its audit row."""
    before = get_current_channel_mode(tx, team, channel)
    row = ModeSwitch(team=team, channel=channel, mode=mode, person=person, at=at)
    insert_row(tx, row)
    data = {"channel": channel, "from": before, "to": mode}
    trail.record_event(tx, "mode.switched", at=at, actor=person, data=data)


def copy_mode_to_channel_id(
    tx: Transaction, team: str, old: str, new: str, *, at: datetime
) -> None:
    """Give a channel's new id the mode (the limit on calls) of its old id."""
    mode = get_current_channel_mode(tx, team, old)
    if mode is not get_current_channel_mode(tx, team, new):
        switch_mode(tx, team, new, mode, "system", at=at)


def change_channel_id(tx: Transaction, team: str, old: str, new: str, *, at: datetime) -> int:
    """Change all rows of a channel to its new id; return the number of requests in it.

    A run whose worker is at a model turn is handed back, because that worker would write to the old
    id. The arguments of calls are left as they were voted on.
    """
    moved_runs = tx.list_rows(Run, team=team, channel=old)
    before, after = f"msg:{team}:{old}:", f"msg:{team}:{new}:"
    for model in (Run, Grant, Delivery):
        here = (col(model.team) == team, col(model.channel) == old)
        columns: dict[str, Any] = {"channel": new}
        if model is Delivery:
            columns["key"] = func.replace(col(Delivery.key), before, after)
        tx.execute(update(model).where(*here).values(columns))
    tx.update_rows(Run, {"team": team, "asked_in": old}, asked_in=new)
    transcripts.change_channel_id_of_files(tx, team, old, new)
    copy_mode_to_channel_id(tx, team, old, new, at=at)
    tx.update_rows(Message, {"channel": old}, channel=new)
    for run in moved_runs:
        if run.status is RunStatus.RUNNING and not _has_running_call(tx, run):
            why = {"why": "its channel has another id"}
            moves.change_run_status(tx, run, RunStatus.READY, at=at, actor="system", data=why)
    data = {"from": old, "to": new, "requests": len(moved_runs)}
    trail.record_event(tx, "channel.moved", at=at, actor="system", data=data)
    return len(moved_runs)


def move_request_out_of_channel(tx: Transaction, run: Run, *, at: datetime) -> bool:
    """Move an open request out of its channel: it has no thread until a new one is begun.

    The new thread begins with a message to its requester; no worker takes the request before that.
    Its cards in the channel stop showing its calls. False if one of its calls is running: its
    worker would post the result in the channel.
    """
    open_runs = runs.list_open_runs_of_request(tx, run.id)
    if any(_has_running_call(tx, each) for each in open_runs):
        return False
    for plan in (plan for each in open_runs for plan in calls.list_open_plans(tx, each.id)):
        for card in outbox.list_cards_of_plan(tx, plan.id):
            body = outbox.parse_message_body(card)
            # a question stays, and is answered, where it was asked
            if card.channel == run.channel and outbox.QUESTION_KEY not in body:
                emptied = outbox.dump_message_body({**body, "calls": []})
                outbox.update_message(tx, card, body=emptied)
        outbox.mark_cards_for_redraw(tx, plan.id)
    why = {"why": "its channel is shared"}
    for each in open_runs:
        tx.update_rows(Run, {"id": each.id}, channel=run.requester, thread_ts="")
        if each.status is not RunStatus.READY:
            moves.change_run_status(tx, each, RunStatus.READY, at=at, actor="system", data=why)
    data = {"from": run.channel}
    trail.record_event(tx, "request.left", at=at, actor="system", run_id=run.id, data=data)
    return True


def _has_running_call(tx: Transaction, run: Run) -> bool:
    """Return whether a call of the run is RUNNING.

    Its result would be lost if the run were handed to another worker.
    """
    found = calls.list_calls_of_all_open_plans(tx, run.id)
    return any(call.status is CallStatus.RUNNING for call in found)
