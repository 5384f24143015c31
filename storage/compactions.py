"""What stands for the older part of a long thread when the model is asked; every item stays.

A compaction is an entry among a thread's items, of a kind that no model's server has: append-only
as they are, and purged with the request in which it was made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, or_, select
from sqlmodel import col

from storage.models import Call, Run
from storage.states import CallStatus
from storage.transaction import Transaction

KIND = "compacted"
BEGINS = f'{{"type": "{KIND}"'  # the stored body of each
READ = "read"  # what a call does that changes nothing
_ON_RECORD = (
    select(col(Call.provider_id))
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(
        *(
            col(getattr(Run, name)) == bindparam(f"{name}_")
            for name in ("team", "channel", "thread_ts", "parent_call")
        ),
        or_(
            col(Call.asked_at).is_not(None),
            col(Call.grant_id) != "",
            (col(Call.does) != READ) & (col(Call.status) != CallStatus.REFUSED),
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Compaction:
    """What stands for the older part of a thread.

    until: `seq` of the newest item of that part
    kept: `seq` of those of it that go to the model as they are
    items: what stands for all others, before those
    seal: whose server alone can read `items`; "" where any model can
    whole: False where the others are not summed up but left out
    """

    until: int
    kept: frozenset[int]
    items: tuple[dict[str, Any], ...]
    seal: str = ""
    whole: bool = True

    def body(self) -> dict[str, Any]:
        """Return it as an entry among the thread's items."""
        return {
            "type": KIND,
            "until": self.until,
            "kept": sorted(self.kept),
            "items": list(self.items),
            "seal": self.seal,
            "whole": self.whole,
        }


def read(body: Mapping[str, Any]) -> Compaction:
    """Return what `Compaction.body` had made an entry of."""
    kept, items = frozenset(body["kept"]), tuple(body["items"])
    return Compaction(body["until"], kept, items, body["seal"], body["whole"])


def on_record(tx: Transaction, run: Run) -> frozenset[str]:
    """The model's ids of the calls in the run's thread that people were asked about, and of those
    that may have changed something.
    """
    given = {"team_": run.team, "channel_": run.channel, "thread_ts_": run.thread_ts}
    return frozenset(tx.scalars(_ON_RECORD, {**given, "parent_call_": run.parent_call}))
