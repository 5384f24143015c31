"""The modes of channels: what was switched, when and by whom; the newest counts."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import bindparam, select
from sqlmodel import col

from storage import audit
from storage.columns import values
from storage.models import Delivery, ModeSwitch, Run
from storage.states import DeliveryKind, Mode
from storage.transaction import Transaction, first, insert_into

_NEWEST = (
    select(ModeSwitch)
    .where(col(ModeSwitch.team) == bindparam("team_"))
    .where(col(ModeSwitch.channel) == bindparam("channel_"))
    .order_by(col(ModeSwitch.seq).desc())
    .limit(1)
)
_ASKED_IN = select(col(Delivery.channel)).where(
    col(Delivery.run_id) == bindparam("run_"), col(Delivery.kind) == DeliveryKind.MESSAGE
)


def newest(tx: Transaction, team: str, channel: str) -> ModeSwitch | None:
    """The channel's newest switch; None where nobody has switched."""
    return first(tx, ModeSwitch, _NEWEST, team_=team, channel_=channel)


def current(tx: Transaction, team: str, channel: str) -> Mode:
    """The channel's mode; ASK where nobody has switched."""
    found = newest(tx, team, channel)
    return found.mode if found else Mode.ASK


def of_run(tx: Transaction, run: Run) -> frozenset[Mode]:
    """The modes a request keeps to: that of its channel, and of the one where it was asked.

    These differ where it was asked in a shared channel and goes on in private.
    """
    asked_in = set(tx.scalars(_ASKED_IN, {"run_": run.id}))
    return frozenset(current(tx, run.team, each) for each in {run.channel, *asked_in})


def switch(
    tx: Transaction, team: str, channel: str, mode: Mode, person: str, *, at: datetime
) -> None:
    """Switch the channel, with its audit row."""
    before = current(tx, team, channel)
    row = ModeSwitch(team=team, channel=channel, mode=mode, person=person, at=at)
    tx.execute(insert_into(ModeSwitch), values(row))
    data = {"channel": channel, "from": before, "to": mode}
    audit.record(tx, "mode.switched", at=at, actor=person, data=data)


def carry_over(tx: Transaction, team: str, old: str, new: str, *, at: datetime) -> None:
    """Let a channel that has another id keep its mode."""
    mode = current(tx, team, old)
    if mode is not current(tx, team, new):
        switch(tx, team, new, mode, "system", at=at)
