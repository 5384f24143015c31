"""Switches a channel's mode: anyone may tighten it, only people named by the policy may loosen it.
The latter may also switch all conversations at once.

Modes are of channels, not threads: Slack takes no slash command in a thread, and what has to be
stopped is seldom one request. Looks people up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from bot.cards import request_sentences as sentences
from bot.cards.slack_text import group_mention, mention
from bot.clock import Clock
from bot.policy.authority import Authority
from bot.policy.evaluation import CurrentPolicy
from bot.policy.gates import Allow, Approvers, Ask, Deny
from bot.signals import Signal
from storage import calls, channel_modes, outbox, runs, trail
from storage.models import Message, ModeSwitch
from storage.states import MessageKind, Mode
from storage.store import Store
from storage.transaction import Transaction

# How a channel's mode changes a gate: it never allows more than the policy. PURE.

STRICTNESS: Mapping[Mode, int] = {Mode.ASK: 0, Mode.STRICT: 1, Mode.OBSERVE: 2}
OBSERVED = "this place is in observe mode, so only look-ups run"
NOBODY = "this place is in strict mode, and the policy's defaults name no approvers"
BY_MODE = "strict mode"  # the rule that asks where the policy would not


def narrowed(
    gate: Allow | Deny | Ask, mode: Mode, default: Ask | None, *, reads: bool
) -> Allow | Deny | Ask:
    """Return the gate as a channel in that mode changes it.

    `default`: the policy's default gate. A call that only `reads` keeps its gate.
    """
    if reads or isinstance(gate, Deny):
        return gate
    match mode:
        case Mode.ASK:
            return gate
        case Mode.OBSERVE:
            return Deny(rule="observe mode", reason=OBSERVED)
        case Mode.STRICT if isinstance(gate, Ask):
            return gate.forgetful()
        case Mode.STRICT if default is None:
            return Deny(rule=BY_MODE, reason=NOBODY)
        case _:
            assert default is not None
            return default.forgetful().model_copy(update={"rule": BY_MODE})


def strictest(modes: Iterable[Mode]) -> Mode:
    """Return the mode that allows the least."""
    return max(modes, key=STRICTNESS.__getitem__)


def is_tighter(now: Mode, before: Mode) -> bool:
    """Return whether mode `now` allows less than mode `before`."""
    return STRICTNESS[now] > STRICTNESS[before]


@dataclass(frozen=True, slots=True)
class Modes:
    """The channel modes: shows and switches them. One per process; any thread."""

    store: Store
    clock: Clock
    policy: CurrentPolicy
    authority: Authority
    post: Signal

    def shown(self, channel: str) -> str:
        """Return the channel's mode and who may loosen it, as mrkdwn.

        The mode of all conversations is added if it is not the usual one.
        """
        with self.store.read() as tx:
            own = channel_modes.newest_mode_switch(tx, self.authority.team, channel)
            every = channel_modes.newest_mode_switch(
                tx, self.authority.team, channel_modes.EVERYWHERE
            )
        said = [sentences.mode_now(own.mode if own else Mode.ASK, _by(own), self._named())]
        if every and every.mode is not Mode.ASK:
            said.append(sentences.mode_everywhere(every.mode, _by(every)))
        return "\n".join(said)

    def switch(self, channel: str, wanted: Mode, person: str) -> str:
        """Switch the channel's mode for a colleague, and say so there; return the reply, as mrkdwn.

        `channel` may be channel_modes.EVERYWHERE, for all conversations, which only people who may
        loosen can switch. Raises LookupFailedError.
        """
        team, now, every = (
            self.authority.team,
            self.clock.now(),
            channel == channel_modes.EVERYWHERE,
        )
        may_loosen = person in self._loosening(channel)
        with self.store.write() as tx:
            before = channel_modes.current_mode(tx, team, channel)
            if before is wanted:
                return sentences.mode_as_before(wanted, everywhere=every)
            if not may_loosen and (every or not is_tighter(wanted, before)):
                data = {"channel": channel, "from": before, "to": wanted, "why": "not_named"}
                trail.record(tx, "mode.refused", at=now, actor=person, data=data)
                refused = sentences.may_not_switch_all(self._named(members=False))
                return refused if every else sentences.may_not_loosen(before, self._named())
            channel_modes.switch_mode(tx, team, channel, wanted, person, at=now)
            if not every:
                self._tell(tx, channel, wanted, person)
            self._redraw(tx, channel)
        self.post.give()
        return sentences.mode_set(wanted, everywhere=every)

    def _tell(self, tx: Transaction, channel: str, mode: Mode, person: str) -> None:
        """Post the new mode to the channel, in one line."""
        found = channel_modes.newest_mode_switch(tx, self.authority.team, channel)
        assert found is not None
        row = Message(
            key=f"mode:{found.team}:{channel}:{found.seq}",
            kind=MessageKind.NOTICE,
            channel=channel,
            body=outbox.dump_body({"text": sentences.mode_switched(person, mode), "mrkdwn": True}),
        )
        outbox.put_message(tx, row)

    def _redraw(self, tx: Transaction, channel: str) -> None:
        """Redraw the cards of the channel's requests, so that they say the new mode."""
        for run in runs.unfinished(tx):
            here = channel in (run.channel, run.asked_in, channel_modes.EVERYWHERE)
            plan = calls.open_plan(tx, run.id) if here else None
            if plan is not None:
                outbox.redraw(tx, plan.id)

    def _who(self) -> Approvers | None:
        """Return who may loosen by the policy, else its default approvers; None without either."""
        policy = self.policy.policy
        return policy.loosen or (policy.default.approvers if policy.default else None)

    def _loosening(self, channel: str) -> frozenset[str]:
        who = self._who()
        if who and channel == channel_modes.EVERYWHERE:  # which has no members
            who = who.model_copy(update={"channel": False})
        return self.authority.named(who, requester="", channel=channel) if who else frozenset()

    def _named(self, *, members: bool = True) -> str:
        """Return who may loosen, as mrkdwn; without `members`, not the channel's members."""
        who = self._who()
        if who is None:
            return ""
        found = [(each, self.authority.directory.group(each)) for each in who.groups]
        groups = [group_mention(group.id) if group else f"@{each}" for each, group in found]
        here = ["members of this channel"] if who.channel and members else []
        return ", ".join([*groups, *map(mention, who.users), *here])


def _by(found: ModeSwitch | None) -> tuple[str, datetime] | None:
    return (found.person, found.at) if found else None
