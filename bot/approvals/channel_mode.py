"""Switches a channel's mode, a limit on the calls made there: ask, strict or observe.

Anyone may tighten it; only people named by the policy may loosen it, or switch all conversations at
once.

A mode belongs to a channel, not to a thread: Slack takes no slash command in a thread, and usually
more than one request has to be stopped. Looks people up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from bot.cards import sentences
from bot.cards.slack_text import group_mention, user_mention
from bot.clock import Clock
from bot.policy.authority import Authority
from bot.policy.evaluation import CurrentPolicy
from bot.policy.gates import Allow, Approvers, Ask, Deny
from bot.signals import Signal
from storage import calls, channel_modes, outbox, runs, trail
from storage.record import Message, ModeSwitch, Run, Store, Transaction
from storage.states import ChannelMode, MessageKind

# How a channel's mode changes a gate: it never allows more than the policy does. PURE.

STRICTNESS_BY_MODE: Mapping[ChannelMode, int] = {
    ChannelMode.ASK: 0,
    ChannelMode.STRICT: 1,
    ChannelMode.OBSERVE: 2,
}
OBSERVE_MODE_REASON = "this place is in observe mode, so only look-ups run"
NO_APPROVERS_REASON = "this place is in strict mode, and the policy's defaults name no approvers"
STRICT_MODE_RULE = "strict mode"  # named in gates that ask only because of strict mode


def restrict_gate_by_channel_mode(
    gate: Allow | Deny | Ask, mode: ChannelMode, default: Ask | None, *, reads: bool
) -> Allow | Deny | Ask:
    """Return the gate, made as strict as this channel mode (ask, strict or observe) requires.

    `default`: the policy's default gate. A call that only `reads` keeps its gate.
    """
    if reads or isinstance(gate, Deny):
        return gate
    match mode:
        case ChannelMode.ASK:
            return gate
        case ChannelMode.OBSERVE:
            return Deny(rule="observe mode", reason=OBSERVE_MODE_REASON)
        case ChannelMode.STRICT if isinstance(gate, Ask):
            return gate.copy_without_offers()
        case ChannelMode.STRICT if default is None:
            return Deny(rule=STRICT_MODE_RULE, reason=NO_APPROVERS_REASON)
        case _:
            assert default is not None
            return default.copy_without_offers().model_copy(update={"rule": STRICT_MODE_RULE})


def get_strictest_channel_mode(
    tx: Transaction, run: Run, until: datetime | None = None
) -> ChannelMode:
    """Return the strictest of the modes (ask, strict or observe) that apply to a request.

    `until`: as they were at that moment; None: as they are.
    """
    modes = channel_modes.list_channel_modes_limiting_run(tx, run, until)
    return max(modes, key=STRICTNESS_BY_MODE.__getitem__)


def is_stricter_mode(now: ChannelMode, before: ChannelMode) -> bool:
    """Return whether mode `now` allows less than mode `before`."""
    return STRICTNESS_BY_MODE[now] > STRICTNESS_BY_MODE[before]


@dataclass(frozen=True, slots=True)
class ChannelModeSwitcher:
    """Shows and switches channels' modes (ask, strict, observe). One per process; any thread."""

    store: Store
    clock: Clock
    policy: CurrentPolicy
    authority: Authority
    post: Signal

    def describe_mode(self, channel: str) -> str:
        """Return the channel's mode and who may loosen it, as mrkdwn.

        The mode of all conversations is added if it is not the usual one. If `channel` is
        channel_modes.EVERYWHERE, only that mode is returned.
        """
        with self.store.read() as tx:
            own = channel_modes.find_newest_mode_switch(tx, self.authority.team, channel)
            every = channel_modes.find_newest_mode_switch(
                tx, self.authority.team, channel_modes.EVERYWHERE
            )
        all_of_them = sentences.global_mode_text(
            every.mode if every else ChannelMode.ASK, _get_switch_author_and_time(every)
        )
        if channel == channel_modes.EVERYWHERE:
            return all_of_them
        lines = [
            sentences.channel_mode_text(
                own.mode if own else ChannelMode.ASK,
                _get_switch_author_and_time(own),
                self._describe_who_may_loosen(),
            )
        ]
        if every and every.mode is not ChannelMode.ASK:
            lines.append(all_of_them)
        return "\n".join(lines)

    def switch_mode(self, channel: str, mode: ChannelMode, person: str) -> str:
        """Switch the channel's mode, post that in the channel, and return the reply to `person`.

        `person` is a colleague; the reply is mrkdwn. `channel` may be channel_modes.EVERYWHERE, for
        all conversations: only people who may loosen modes can switch that. Raises
        LookupFailedError.
        """
        team = self.authority.team
        now = self.clock.now()
        every = channel == channel_modes.EVERYWHERE
        may_loosen = person in self._list_people_who_may_loosen(channel)
        with self.store.write() as tx:
            before = channel_modes.get_current_channel_mode(tx, team, channel)
            if before is mode:
                return sentences.mode_unchanged_reply(mode, everywhere=every)
            if not may_loosen and (every or not is_stricter_mode(mode, before)):
                data = {"channel": channel, "from": before, "to": mode, "why": "not_named"}
                trail.record_event(tx, "mode.refused", at=now, actor=person, data=data)
                refused = sentences.global_mode_not_allowed_reply(
                    self._describe_who_may_loosen(members=False)
                )
                return (
                    refused
                    if every
                    else sentences.mode_loosening_not_allowed_reply(
                        before, self._describe_who_may_loosen()
                    )
                )
            channel_modes.switch_mode(tx, team, channel, mode, person, at=now)
            if not every:
                self._post_mode_notice(tx, channel, mode, person)
            self._redraw_cards(tx, channel)
        self.post.notify()
        return sentences.mode_set_reply(mode, everywhere=every)

    def _post_mode_notice(
        self, tx: Transaction, channel: str, mode: ChannelMode, person: str
    ) -> None:
        """Post the new mode to the channel, in one line."""
        found = channel_modes.find_newest_mode_switch(tx, self.authority.team, channel)
        assert found is not None
        row = Message(
            key=f"mode:{found.team}:{channel}:{found.seq}",
            kind=MessageKind.NOTICE,
            channel=channel,
            body=outbox.dump_message_body(
                {"text": sentences.mode_switched_notice(person, mode), "mrkdwn": True}
            ),
        )
        outbox.queue_message(tx, row)

    def _redraw_cards(self, tx: Transaction, channel: str) -> None:
        """Redraw the cards of the channel's requests, so that they say the new mode."""
        for run in runs.list_open_and_failed_runs(tx):
            here = channel in (run.channel, run.asked_in, channel_modes.EVERYWHERE)
            plan = calls.find_open_plan(tx, run.id) if here else None
            if plan is not None:
                outbox.mark_cards_for_redraw(tx, plan.id)

    def _get_loosening_approvers(self) -> Approvers | None:
        """Return who may loosen a channel's mode; None if nobody may.

        These are the people that the policy names for it, else its default approvers.
        """
        policy = self.policy.policy
        return policy.loosen or (policy.default.approvers if policy.default else None)

    def _list_people_who_may_loosen(self, channel: str) -> frozenset[str]:
        who = self._get_loosening_approvers()
        if who and channel == channel_modes.EVERYWHERE:  # "everywhere" has no members to name
            who = who.model_copy(update={"channel": False})
        return (
            self.authority.list_named_people(who, requester="", channel=channel)
            if who
            else frozenset()
        )

    def _describe_who_may_loosen(self, *, members: bool = True) -> str:
        """Return who may loosen a channel's mode, as mrkdwn.

        `members`: whether to mention the channel's members if they may.
        """
        who = self._get_loosening_approvers()
        if who is None:
            return ""
        found = [(each, self.authority.directory.find_group(each)) for each in who.groups]
        groups = [group_mention(group.id) if group else f"@{each}" for each, group in found]
        here = ["members of this channel"] if who.channel and members else []
        return ", ".join([*groups, *map(user_mention, who.users), *here])


def _get_switch_author_and_time(found: ModeSwitch | None) -> tuple[str, datetime] | None:
    return (found.person, found.at) if found else None
