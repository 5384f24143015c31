"""How words become the agent's: in the request that is open, or in a new one."""

from __future__ import annotations

from datetime import datetime

from bot.agent import outputs
from storage import endings, inbox, moves, runs
from storage.models import Delivery, Run
from storage.states import RunStatus
from storage.transaction import Transaction

R = RunStatus


def take_on(
    tx: Transaction, delivery: Delivery, run: Run | None, *, at: datetime, in_private: bool
) -> Run | None:
    """Have the model hear a message, in the open request or in a new one, which is returned.

    `run`: the newest of the thread. `in_private`: a new one waits for the message in its person's
    direct messages that it is to begin with, or goes on in the thread that stands there.
    """
    made = None
    if run is None or not runs.is_open(run):
        if run is not None and run.status is R.FAILED:
            endings.leave_behind(tx, run, at=at, words=outputs)
        channel, thread = delivery.channel, delivery.thread_ts
        if in_private and run is not None and run.thread_ts and run.channel != channel:
            channel, thread = run.channel, run.thread_ts  # which stands there already
        elif in_private:
            channel, thread = delivery.user, ""
        elsewhere = in_private and delivery.channel not in ("", channel)
        run = made = Run(
            team=delivery.team,
            asked_in=delivery.channel if elsewhere else "",
            channel=channel,
            thread_ts=thread,
            requester=delivery.user,
            created_at=at,
            updated_at=at,
        )
        moves.started(tx, run, at=at)
    elif run.status is R.WAITING:
        # a side turn: what waits goes on waiting, unless the model is asked to change it
        moves.run(tx, run, R.READY, at=at, actor=delivery.user)
    inbox.hold(tx, delivery, run.id)
    return made
