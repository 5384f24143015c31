"""Processes deliveries that are not clicks: messages for the agent, and events from Slack.

Runs on the loop. People are looked up first; then each delivery is settled in one transaction.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from bot.approvals import message_changes
from bot.approvals.form_catalog import RequestChannelChecker, queue_form_invitation
from bot.approvals.permissions import reply_privately
from bot.approvals.person_questions import is_waiting_for_answers_only
from bot.cards import notices, sentences, views
from bot.cards.answers import (
    WORKSPACE_LEFT_NOTICE,
    WORKSPACE_LEFT_REASON,
    greeting_text,
    help_text,
    render_notice_sentence,
)
from bot.clock import Clock, get_lead_over_machine_time
from bot.policy.authority import Authority, is_colleague
from bot.runs import shared_channels
from bot.tools import Registry
from storage import endings, inbox, moves, outbox, runs
from storage.record import Delivery, Run, Store, Transaction
from storage.states import RUN_OPEN_STATUSES, DeliveryKind, RunStatus

log = logging.getLogger("countersign.intake")
R = RunStatus
_SLACK_CHANNEL_PATTERN = re.compile(r"[CDG][A-Z0-9]+")
MAX_MESSAGE_AGE = timedelta(days=1)  # an older message begins no request


@dataclass(slots=True)
class MessageIntake:
    """Message intake and event handling; one instance per process, called by the loop only."""

    store: Store
    clock: Clock
    tools: Registry
    authority: Authority
    bot_user: str
    places: RequestChannelChecker
    channels: shared_channels.ChannelChangeHandler
    # None of these callbacks fails or blocks. This one gets an event, and returns whether it was
    # about people, groups or channels, whose known data it updates.
    update_directory: Callable[[Mapping[str, Any]], bool]
    prompts: Callable[[str], None]  # shows suggested prompts in that DM
    ended: Callable[[Run], None]  # shows that a run is over
    home: Callable[[str], None]  # publishes that person's Home tab
    # gets person, channel, thread and text; if they are a question about approvals, answers it and
    # returns True
    questions: Callable[[str, str, str, str], bool]
    has_model: bool  # without one, people who write are shown how to ask with a form
    _over: list[Run] = field(default_factory=list, init=False)  # runs cancelled by this delivery
    _waiting: set[str] = field(default_factory=set)  # keys of events whose look-ups are pending

    def handle_delivery(self, delivery: Delivery) -> None:
        """Process one message or event.

        Raises LookupFailedError if it must be tried again later, LookupPendingError while a person
        is still being looked up.
        """
        self._over = []
        body = json.loads(delivery.body)
        event, is_shared = body["event"], bool(body.get("is_ext_shared_channel"))
        note = (
            self._handle_message(delivery, event, is_shared)
            if delivery.kind == DeliveryKind.MESSAGE
            else self._handle_event(delivery, event)
        )
        if note is not None:
            with self.store.write() as tx:
                if delivery.kind == DeliveryKind.MESSAGE:
                    inbox.finish_delivery_and_erase_body(tx, delivery, note)
                else:
                    inbox.mark_delivery_done(tx, delivery, note)
        for run in self._over:
            self.ended(run)

    def _handle_message(
        self, delivery: Delivery, event: dict[str, Any], is_shared: bool
    ) -> str | None:
        """Process a message; return why it is not kept, or None if it is settled already."""
        if event.get("subtype") in message_changes.MESSAGE_CHANGE_SUBTYPES:
            with self.store.write() as tx:
                if not inbox.is_delivery_still_new(tx, delivery):
                    return None
                heeded = message_changes.process_message_change(
                    tx, delivery, event, at=self.clock.now(), bot_user=self.bot_user
                )
            self._over += [heeded.ended] if heeded.ended is not None else []
            if heeded.message is None:
                return None
            event = heeded.message
        by_nobody = event.get("bot_id") or delivery.user in ("", self.bot_user)
        if by_nobody or event.get("subtype") not in views.HUMAN_MESSAGE_SUBTYPES:
            return "not a person's message"
        is_dm = event.get("channel_type") == "im"
        addressed = is_dm or f"<@{self.bot_user}" in (event.get("text") or "")
        if not (addressed or self._is_own_request_continued(delivery, event, is_shared=is_shared)):
            return self._refuse_unaddressed_message(delivery, event, is_shared=is_shared)
        if not self.authority.is_active_colleague(delivery.user):
            with self.store.write() as tx:
                outbox.queue_private_reply(tx, delivery, sentences.MEMBERS_ONLY_REPLY)
            return "not a colleague"
        if self._reject_if_too_late(delivery, event):
            return "too old to begin"
        text = views.extract_message_text(event, self.bot_user)
        closed = self.places.is_disallowed_shared_channel(delivery.channel, is_shared=is_shared)
        with self.store.write() as tx:
            if not inbox.is_delivery_still_new(tx, delivery):
                return None  # another process on this database handled it first
            aside = closed and not views.is_only_cancellation(text)
            find = shared_channels.find_newest_run_for_message
            run = find(tx, delivery, is_shared=is_shared, closed=aside)
            # without a mention, a message in a request's thread is for its agent
            is_ours = run is None or "<@" in (event.get("text") or "")
            place = delivery.user, delivery.channel, delivery.thread_ts
            if is_ours and self.questions(*place, text):
                inbox.finish_delivery_and_erase_body(tx, delivery, "a question about approvals")
                return None
            if refusal := self._refuse_words(tx, delivery, run, event, addressed=addressed):
                outbox.queue_private_reply(tx, delivery, refusal)
                inbox.mark_delivery_done(tx, delivery, "words decide nothing")
                return None
            new_run = self._act_on_message(tx, delivery, run, text, in_private=closed)
            if new_run and is_shared:
                shared_channels.post_where_request_continues(tx, new_run, delivery, text)
        return None

    def _refuse_words(
        self,
        tx: Transaction,
        delivery: Delivery,
        run: Run | None,
        event: dict[str, Any],
        *,
        addressed: bool,
    ) -> str:
        """Return the reply to a message that must not go to the agent; "" if it may go there."""
        raw_text, text = event.get("text") or "", views.extract_message_text(event, self.bot_user)
        if run is None or run.requester != delivery.user:
            return self._refuse_bystander(tx, delivery, run, text)
        if addressed or views.is_only_cancellation(text):
            return ""
        if runs.is_run_without_model(run) and runs.is_run_open(run):
            return notices.NO_AGENT_HERE_REPLY
        if run.status is not R.WAITING:
            return ""
        if is_waiting_for_answers_only(tx, run):
            return sentences.ANSWER_BY_BUTTONS_REPLY
        among_people = "<@" in raw_text or not _has_bot_been_asked_first(tx, delivery)
        return notices.NOT_FOR_AGENT_REPLY if among_people else ""

    def _is_own_request_continued(
        self, delivery: Delivery, event: dict[str, Any], *, is_shared: bool
    ) -> bool:
        """Return whether a message without a mention continues its author's request there."""
        with self.store.read() as tx:
            run = shared_channels.find_newest_run_for_message(tx, delivery, is_shared=is_shared)
            rooted = _has_bot_been_asked_first(tx, delivery)
        if run is None or run.requester != delivery.user:
            return False
        if run.channel != delivery.channel:  # in a shared channel they may mean the other company
            return views.is_only_cancellation(views.extract_message_text(event, self.bot_user))
        if runs.is_run_open(run):
            return True
        return rooted and "<@" not in (event.get("text") or "")

    def _refuse_unaddressed_message(
        self, delivery: Delivery, event: dict[str, Any], *, is_shared: bool
    ) -> str:
        """Reply to a message that tries to stop another's request, or to decide in words.

        Other messages that are not for the bot get no reply. Returns why the message is not kept.
        """
        text = views.extract_message_text(event, self.bot_user)
        with self.store.write() as tx:
            run = shared_channels.find_newest_run_for_message(tx, delivery, is_shared=is_shared)
            refusal = self._refuse_bystander(tx, delivery, run, text)
            if not refusal:
                return message_changes.NOT_ADDRESSED_NOTE
            outbox.queue_private_reply(tx, delivery, refusal)
        return "words decide nothing"

    def _refuse_bystander(
        self, tx: Transaction, delivery: Delivery, run: Run | None, text: str
    ) -> str:
        """Return the reply to somebody who tries to stop or decide a request by words; "" for none.

        `run`: the newest of the thread, made by somebody else; None in the thread of a card that is
        not in its request's own thread.
        """
        if run is not None and runs.is_run_open(run) and views.is_only_cancellation(text):
            return sentences.only_requester_may_reply("cancel", run.requester)
        if not views.is_decision_in_words(text):
            return ""
        card = outbox.find_newest_card_of_thread(
            tx, delivery.team, delivery.channel, delivery.thread_ts
        )
        request_run = run or (runs.find_run(tx, card.run_id) if card else None)
        if request_run is None or not runs.is_run_open(request_run):
            return ""
        is_asked_here = card or (
            request_run.status is R.WAITING and request_run.channel == delivery.channel
        )
        return sentences.ONLY_BUTTONS_DECIDE_REPLY if is_asked_here else ""

    def _act_on_message(
        self, tx: Transaction, delivery: Delivery, run: Run | None, text: str, *, in_private: bool
    ) -> Run | None:
        """Do what a message asks for; return the run that it begins, None if it begins none.

        `in_private`: whether a new request goes on in direct messages.
        """
        if text.lower().strip(" .!") == "help" or not text:
            self._post_help(tx, delivery, in_private=in_private)
            inbox.mark_delivery_done(tx, delivery, "help")
            return None
        if runs.is_run_without_model(run) and not (
            views.is_only_cancellation(text) and run and run.requester == delivery.user
        ):
            run = None  # that run needs no messages; this one begins a request of its own
        if run is not None and runs.is_run_open(run) and run.requester != delivery.user:
            busy = sentences.thread_is_busy_reply(run.requester)
            outbox.queue_private_reply(tx, delivery, busy)
            inbox.mark_delivery_done(tx, delivery, "someone else's thread is busy")
            return None
        if views.is_only_cancellation(text):
            self._cancel_run(tx, delivery, run)
            return None
        if not self.has_model:
            queue_form_invitation(tx, delivery, in_private=in_private)
            inbox.mark_delivery_done(tx, delivery, "there is no model")
            return None
        new_run = pass_message_to_agent(
            tx, delivery, run, at=self.clock.now(), in_private=in_private
        )
        if new_run:
            self._greet_once(tx, delivery)
        return new_run

    def _cancel_run(self, tx: Transaction, delivery: Delivery, run: Run | None) -> None:
        if run and _cancel_and_announce(tx, run, at=self.clock.now(), actor=delivery.user):
            self._over.append(run)
        else:
            outbox.queue_private_reply(tx, delivery, sentences.NOTHING_TO_CANCEL_REPLY)
        inbox.mark_delivery_done(tx, delivery, "cancel")

    def _handle_event(self, delivery: Delivery, event: dict[str, Any]) -> str | None:
        match event["type"]:
            case "app_home_opened" if event.get("tab") == "home":
                self.home(delivery.user)
            case "app_home_opened":
                return self._handle_messages_tab_opened(delivery, event)
            case "agent_session_stopped":
                return self._handle_session_stopped(delivery, event)
            case "user_change":
                if delivery.key not in self._waiting:
                    self._waiting.add(delivery.key)
                    self.update_directory(event)  # once: it drops the answer that is waited for
                of = self.authority, delivery.user, self.clock.now()
                self._over += message_changes.cancel_requests_if_person_left(self.store, *of)
                self._waiting.discard(delivery.key)
            case "team_access_revoked":
                self._cancel_requests_out_of_reach()
            case "member_joined_channel" if delivery.user == self.bot_user:
                self.update_directory(event)
                with self.store.write() as tx:  # cards that could not be redrawn while out of reach
                    moves.mark_failed_cards_for_redraw(tx)
            case "channel_id_changed" | "channel_shared":
                self.channels.handle_event(delivery, event)
                # last: handle_event may wait for a look-up, whose answer this would drop each time
                self.update_directory(event)
            case "tokens_revoked" | "app_uninstalled":
                log.error(
                    "Slack says %s: nothing can be posted until the app is installed again",
                    event["type"],
                )
            case _ if not self.update_directory(event):
                return "nothing to do"
        return str(event["type"])

    def _cancel_requests_out_of_reach(self) -> None:
        """Cancel requests in channels or of people that Slack no longer lets the bot reach."""
        with self.store.read() as tx:
            found = [run for run in runs.list_open_and_failed_runs(tx) if not run.parent_call]
        people = {run.requester for run in found if run.requester}
        known = self.authority.directory.find_people(people)
        gone = {each for each in people if not is_colleague(known.get(each), self.authority.team)}
        channels = {run.channel for run in found if _SLACK_CHANNEL_PATTERN.fullmatch(run.channel)}
        lost = {each for each in channels if not self.authority.directory.find_channel_id(each)}
        self._over += message_changes.cancel_requests(
            self.store,
            lambda run: run.requester in gone or run.channel in lost,
            self.clock.now(),
            WORKSPACE_LEFT_REASON,
            WORKSPACE_LEFT_NOTICE,
        )

    def _reject_if_too_late(self, delivery: Delivery, event: dict[str, Any]) -> bool:
        """Return whether the message arrived too late to act on; if so, say that in its thread."""
        arrived = delivery.received_at - get_lead_over_machine_time(self.clock)
        is_late = arrived.timestamp() - float(event["ts"]) > MAX_MESSAGE_AGE.total_seconds()
        if is_late:
            key = f"late:{delivery.channel}:{event['ts']}"
            with self.store.write() as tx:
                outbox.queue_text_line(
                    tx, key, delivery.channel, delivery.thread_ts, sentences.LATE_MESSAGE_REPLY
                )
        return is_late

    def _handle_messages_tab_opened(self, delivery: Delivery, event: dict[str, Any]) -> str | None:
        if event.get("tab") != "messages" or not self.authority.is_active_colleague(delivery.user):
            return "nothing to greet"
        with self.store.write() as tx:
            fresh = inbox.mark_person_greeted(tx, delivery.team, delivery.user, at=self.clock.now())
            if fresh:
                text = self._build_greeting()
                key = f"greeting:{delivery.team}:{delivery.user}"
                outbox.queue_text_line(tx, key, event["channel"], "", text)
            inbox.mark_delivery_done(tx, delivery, "greeted" if fresh else "known already")
        self.prompts(event["channel"])
        return None

    def _handle_session_stopped(self, delivery: Delivery, event: dict[str, Any]) -> str:
        with self.store.write() as tx:
            run = runs.find_newest_run_in_thread(
                tx, delivery.team, event["channel"], event.get("thread_ts", "")
            )
            if run is None or run.status not in RUN_OPEN_STATUSES:
                return "nothing to stop"
            if run.requester != delivery.user:
                outbox.queue_private_reply(
                    tx,
                    delivery,
                    sentences.only_requester_may_reply("cancel", run.requester),
                    mrkdwn=True,
                )
                return "not the requester's stop"
            if not _cancel_and_announce(tx, run, at=self.clock.now(), actor=delivery.user):
                return "nothing to stop"
        self.ended(run)
        return "stopped"

    def _greet_once(self, tx: Transaction, delivery: Delivery) -> None:
        """Explain the bot privately to a person who makes their first request."""
        if inbox.mark_person_greeted(tx, delivery.team, delivery.user, at=self.clock.now()):
            outbox.queue_private_reply(tx, delivery, self._build_greeting(), mrkdwn=True)

    def _build_greeting(self) -> str:
        tools = self._list_tool_titles_and_effects()
        return greeting_text(self.bot_user, tools, has_model=self.has_model)

    def _post_help(self, tx: Transaction, delivery: Delivery, *, in_private: bool) -> None:
        text = help_text(self._list_tool_titles_and_effects(), has_model=self.has_model)
        if in_private:
            outbox.queue_private_reply(tx, delivery, text, mrkdwn=True)
            return
        outbox.queue_text_line(
            tx, f"help:{delivery.seq}", delivery.channel, delivery.thread_ts, text
        )

    def _list_tool_titles_and_effects(self) -> list[tuple[str, str]]:
        return [(tool.title, tool.declared_effect) for tool in self.tools]


def _has_bot_been_asked_first(tx: Transaction, delivery: Delivery) -> bool:
    """Return whether the thread that the message is in began with a message to the bot."""
    key = f"msg:{delivery.team}:{delivery.channel}:{delivery.thread_ts}"
    return inbox.has_delivery(tx, key)


def _cancel_and_announce(tx: Transaction, run: Run, *, at: datetime, actor: str) -> bool:
    """Cancel a request and say so in its thread; False if it is over already."""
    if not endings.cancel_run(tx, run, at=at, actor=actor):
        return False
    line = {"text": notices.request_cancelled_line(actor)}
    outbox.queue_notice(tx, run, f"cancelled:{run.id}", line)
    return True


# Passing messages to the agent, in the open run or in a new one.


def pass_message_to_agent(
    tx: Transaction, delivery: Delivery, run: Run | None, *, at: datetime, in_private: bool
) -> Run | None:
    """Pass a message to the agent, in the open run or in a new one; return the new one, if any.

    `run`: the newest of the thread. `in_private`: a new run belongs in direct messages. It goes on
    in the private thread of `run`, or, if there is none, waits until its own first message has been
    posted there.
    """
    new_run = None
    if run is None or not runs.is_run_open(run):
        if run is not None and run.status is RunStatus.FAILED:
            endings.supersede_calls_of_ended_run(tx, run, at=at)
        channel, thread = delivery.channel, delivery.thread_ts
        if in_private and run is not None and run.thread_ts and run.channel != channel:
            channel, thread = run.channel, run.thread_ts  # its thread there exists already
        elif in_private:
            channel, thread = delivery.user, ""
        elsewhere = in_private and delivery.channel not in ("", channel)
        run = new_run = Run(
            team=delivery.team,
            asked_in=delivery.channel if elsewhere else "",
            channel=channel,
            thread_ts=thread,
            requester=delivery.user,
            created_at=at,
            updated_at=at,
        )
        moves.insert_run(tx, run, at=at)
    elif run.status is RunStatus.WAITING:
        # a side turn: its calls stay pending, unless the model is asked to change the plan
        moves.change_run_status(tx, run, RunStatus.READY, at=at, actor=delivery.user)
    inbox.hold_message_until_next_turn(tx, delivery, run.id)
    return new_run


@dataclass(frozen=True, slots=True)
class NonSlackMessageIntake:
    """Intake of messages typed elsewhere than in Slack; one per process, called by the loop only.

    `show_run_end` is called for runs that were cancelled.
    """

    store: Store
    clock: Clock
    authority: Authority
    has_model: bool
    show_run_end: Callable[[Run], None]

    def handle_delivery(self, delivery: Delivery) -> bool:
        """Process a message typed elsewhere than in Slack; return False for any other delivery.

        Raises LookupFailedError if it must be tried again later, LookupPendingError while a person
        is still being looked up.
        """
        if delivery.kind is not DeliveryKind.TYPED:
            return False
        words = json.loads(delivery.body)["event"]["text"]
        colleague = self.authority.is_active_colleague(delivery.user)
        with self.store.write() as tx:
            if not inbox.is_delivery_still_new(tx, delivery):
                return True
            run = None
            if delivery.thread_ts:
                place = (delivery.team, delivery.channel, delivery.thread_ts)
                run = runs.find_newest_run_in_thread(tx, *place)
            if runs.is_run_without_model(run):
                run = None  # that run needs no messages; this one begins a request of its own
            refused = self._refusal_text(delivery, run, is_colleague=colleague)
            if refused:
                reply_privately(tx, delivery, refused)
                inbox.finish_delivery_and_erase_body(tx, delivery, "refused")
            elif views.is_only_cancellation(words):
                self._cancel_run(tx, delivery, run)
            else:
                self._pass_to_agent(tx, delivery, run, words)
        return True

    def _refusal_text(self, delivery: Delivery, run: Run | None, *, is_colleague: bool) -> str:
        if not is_colleague:
            return sentences.MEMBERS_ONLY_REPLY
        if not self.has_model:
            return notices.NO_MODEL_AT_TERMINAL_TEXT
        if run is not None and runs.is_run_open(run) and run.requester != delivery.user:
            return sentences.thread_is_busy_reply(run.requester)
        return ""

    def _pass_to_agent(
        self, tx: Transaction, delivery: Delivery, run: Run | None, words: str
    ) -> None:
        made = pass_message_to_agent(
            tx, delivery, run, at=self.clock.now(), in_private=not delivery.thread_ts
        )
        text = notices.words_typed_elsewhere_line(delivery.surface, delivery.user, words)
        if made and not made.thread_ts:
            outbox.queue_thread_root_message(tx, made, text, render_notice_sentence(text))
        elif about := made or run:
            outbox.queue_notice(tx, about, f"typed:{delivery.seq}", {"text": text})

    def _cancel_run(self, tx: Transaction, delivery: Delivery, run: Run | None) -> None:
        if run and _cancel_and_announce(tx, run, at=self.clock.now(), actor=delivery.user):
            self.show_run_end(run)
        else:
            reply_privately(tx, delivery, sentences.NOTHING_TO_CANCEL_REPLY)
        inbox.mark_delivery_done(tx, delivery, "cancel")
