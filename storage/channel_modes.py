"""The modes of channels: what was switched, when and by whom; the newest counts."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import bindparam, func, or_, select
from sqlmodel import col

from storage import trail
from storage.columns import values
from storage.models import Delivery, ModeSwitch, Run
from storage.states import Mode
from storage.transaction import Transaction, first, insert_into

EVERYWHERE = ""  # in the place of a channel: of all conversations with the bot
_NEWEST = (
    select(ModeSwitch)
    .where(col(ModeSwitch.team) == bindparam("team_"))
    .where(col(ModeSwitch.channel) == bindparam("channel_"))
    .order_by(col(ModeSwitch.seq).desc())
    .limit(1)
)
_ASKED_IN = select(col(Delivery.channel)).where(col(Delivery.run_id) == bindparam("run_"))
# of the run, and of what was asked in its thread before it: that is in what the model reads
_FROM = select(col(Run.asked_in)).where(
    or_(
        col(Run.id) == bindparam("run_"),
        (col(Run.team) == bindparam("team_"))
        & (col(Run.channel) == bindparam("channel_"))
        & (col(Run.thread_ts) == bindparam("thread_"))
        & (col(Run.thread_ts) != ""),
    )
)
_channel = col(ModeSwitch.channel)
_OF_RUN = select(col(ModeSwitch.mode)).where(
    col(ModeSwitch.seq).in_(
        select(func.max(col(ModeSwitch.seq)))
        .where(col(ModeSwitch.team) == bindparam("team_"))
        .where(
            or_(
                _channel.in_([bindparam("channel_"), EVERYWHERE]),
                _channel.in_(_ASKED_IN),
                _channel.in_(_FROM),
            )
        )
        .group_by(_channel)
    )
)


def newest_mode_switch(tx: Transaction, team: str, channel: str) -> ModeSwitch | None:
    """The channel's newest switch; None where nobody has switched."""
    return first(tx, ModeSwitch, _NEWEST, team_=team, channel_=channel)


def current_mode(tx: Transaction, team: str, channel: str) -> Mode:
    """The channel's mode; ASK where nobody has switched."""
    found = newest_mode_switch(tx, team, channel)
    return found.mode if found else Mode.ASK


def modes_of_run(tx: Transaction, run: Run) -> frozenset[Mode]:
    """The modes a run keeps to: that of its channel, of those where it was asked, and of all.

    The first two differ where it was asked in a shared channel and goes on in private, or asked
    with a form or by a program where it could not begin. What is born of it, and later requests in
    its thread, keep to the same. ASK is always among them, for what nobody
    has switched.
    """
    place = {"team_": run.team, "channel_": run.channel, "run_": run.id, "thread_": run.thread_ts}
    return frozenset((Mode.ASK, *tx.scalars(_OF_RUN, place)))


def switch_mode(
    tx: Transaction, team: str, channel: str, mode: Mode, person: str, *, at: datetime
) -> None:
    """Switch the channel, with its audit row."""
    before = current_mode(tx, team, channel)
    row = ModeSwitch(team=team, channel=channel, mode=mode, person=person, at=at)
    tx.execute(insert_into(ModeSwitch), values(row))
    data = {"channel": channel, "from": before, "to": mode}
    trail.record(tx, "mode.switched", at=at, actor=person, data=data)


def carry_over_mode(tx: Transaction, team: str, old: str, new: str, *, at: datetime) -> None:
    """Let a channel that has another id keep its mode."""
    mode = current_mode(tx, team, old)
    if mode is not current_mode(tx, team, new):
        switch_mode(tx, team, new, mode, "system", at=at)
