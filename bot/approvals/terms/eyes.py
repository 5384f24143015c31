"""Whether everybody who sees a card may read all of what a tool says of a call beforehand."""

from __future__ import annotations

from dataclasses import replace

from bot.approvals.terms.facts import Sources
from bot.approvals.terms.gating import gate_of
from bot.policy.gates import Allow
from bot.tools import Preview
from storage.models import Run


def for_thread(sources: Sources, run: Run, seen: Preview) -> Preview:
    """Return the preview, told in full in the thread where the requester could read it unasked."""
    if seen.in_thread is None or seen.as_read is None:
        return seen
    allowed = isinstance(gate_of(sources, run, *seen.as_read), Allow)
    return replace(seen, in_thread=None) if allowed else seen
