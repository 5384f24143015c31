"""Switches a channel's mode: anyone may tighten, whom the policy names may loosen.

A channel and not a thread: Slack takes no slash command in a thread, and what is to be stopped is
seldom one request. Looks people up.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.approvals.modes.narrowing import is_tighter
from bot.clock import Clock
from bot.messages.sentences import modes as sentences
from bot.messages.text import group_mention, mention
from bot.policy.authority import Authority
from bot.policy.current import CurrentPolicy
from bot.policy.gates import Approvers
from bot.signals import Signal
from storage import audit, calls, modes, outbox, runs
from storage.models import Message
from storage.states import MessageKind, Mode
from storage.store import Store
from storage.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Modes:
    """One per process; any thread."""

    store: Store
    clock: Clock
    policy: CurrentPolicy
    authority: Authority
    post: Signal

    def shown(self, channel: str) -> str:
        """Return which mode the channel is in and who may loosen it, as mrkdwn."""
        with self.store.read() as tx:
            found = modes.newest(tx, self.authority.team, channel)
        mode = found.mode if found else Mode.ASK
        by = (found.person, found.at) if found else None
        return sentences.mode_now(mode, by, self._named())

    def switch(self, channel: str, wanted: Mode, person: str) -> str:
        """Switch the channel for a colleague, and tell it; return what to tell them, as mrkdwn.

        Raises LookupFailedError.
        """
        team, now = self.authority.team, self.clock.now()
        may_loosen = person in self._loosening(channel)
        with self.store.write() as tx:
            before = modes.current(tx, team, channel)
            if before is wanted:
                return sentences.mode_as_before(wanted)
            if not (may_loosen or is_tighter(wanted, before)):
                data = {"channel": channel, "from": before, "to": wanted, "why": "not_named"}
                audit.record(tx, "mode.refused", at=now, actor=person, data=data)
                return sentences.may_not_loosen(before, self._named())
            modes.switch(tx, team, channel, wanted, person, at=now)
            found = modes.newest(tx, team, channel)
            assert found is not None
            row = Message(
                key=f"mode:{team}:{channel}:{found.seq}",
                kind=MessageKind.NOTICE,
                channel=channel,
                body=outbox.dump({"text": sentences.mode_switched(person, wanted), "mrkdwn": True}),
            )
            outbox.put(tx, row)
            self._redraw(tx, channel)
        self.post.give()
        return sentences.mode_set(wanted)

    def _redraw(self, tx: Transaction, channel: str) -> None:
        """Have the cards of the channel's requests say the new mode."""
        for run in runs.unfinished(tx):
            plan = calls.open_plan(tx, run.id) if run.channel == channel else None
            if plan is not None:
                outbox.redraw(tx, plan.id)

    def _who(self) -> Approvers | None:
        """Return whom the policy names for loosening, else whom it asks by default."""
        policy = self.policy.policy
        return policy.loosen or (policy.default.approvers if policy.default else None)

    def _loosening(self, channel: str) -> frozenset[str]:
        who = self._who()
        return self.authority.named(who, requester="", channel=channel) if who else frozenset()

    def _named(self) -> str:
        who = self._who()
        if who is None:
            return ""
        found = [(each, self.authority.directory.group(each)) for each in who.groups]
        groups = [group_mention(group.id) if group else f"@{each}" for each, group in found]
        members = ["members of this channel"] if who.channel else []
        return ", ".join([*groups, *map(mention, who.users), *members])
