"""Processes deliveries that are not clicks: messages for the agent, and events from Slack.

Runs on the loop. People are looked up first; then each delivery is settled in one transaction.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bot.agent import outputs
from bot.approvals.form_requests import StartingPlaces, invite
from bot.approvals.person_questions import is_all_that_waits
from bot.approvals.replies import tell
from bot.approvals.request_changes import CHANGES, changed, end_those_of
from bot.cards import notices, refusals, request_sentences
from bot.cards.answers import greeting, help_text, notice_blocks
from bot.cards.notices import cancelled_line
from bot.cards.views import WRITTEN, message_text, takes_back
from bot.clock import Clock, lead_over_world_time
from bot.policy.authority import Authority
from bot.policy.evaluation import CurrentPolicy
from bot.runs.ports import DirectoryMemory, Questions
from bot.runs.shared_channels import ChangedChannels, newest_run_of_thread, say_where
from bot.tools import Registry
from storage import endings, inbox, moves, outbox, runs
from storage.models import Delivery, Run
from storage.states import RUN_OPEN, DeliveryKind, RunStatus
from storage.store import Store
from storage.transaction import Transaction

log = logging.getLogger("countersign.intake")
R = RunStatus
OLD = timedelta(days=1)  # after which a message that comes only now is not begun


class Intake:
    """Message intake and event handling; one instance per process, called by the loop only."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        tools: Registry,
        authority: Authority,
        bot_user: str,
        policy: CurrentPolicy,
        known: DirectoryMemory,
        prompts: Callable[[str], None],
        ended: Callable[[Run], None],
        home: Callable[[str], None],
        questions: Questions,
        has_model: bool = True,
    ) -> None:
        """`known` caches directory data. `questions` answers questions about approvals.

        `prompts(dm channel)` shows suggested prompts, `ended(run)` shows that a run is over,
        `home(person)` publishes the Home tab; none of the callbacks fails or waits. Without a
        model, people who write are shown how to ask with a form.
        """
        self._store = store
        self._clock = clock
        self._tools = tools
        self._authority = authority
        self._bot_user = bot_user
        self._places = StartingPlaces(authority.directory, policy, bot_user)
        self._channels = ChangedChannels(store, clock, policy, self._places)
        self._known = known
        self._prompts = prompts
        self._ended = ended
        self._over: list[Run] = []  # what this delivery has cancelled
        self._home = home
        self._has_model = has_model
        self._questions = questions

    def take(self, delivery: Delivery) -> None:
        """Process one message or event.

        Raises LookupFailedError if it must be tried again later, NotYetKnownError while a person is
        still being looked up.
        """
        self._over = []
        body = json.loads(delivery.body)
        event, is_shared = body["event"], bool(body.get("is_ext_shared_channel"))
        note = (
            self._message(delivery, event, is_shared)
            if delivery.kind == DeliveryKind.MESSAGE
            else self._event(delivery, event)
        )
        if note is not None:
            with self._store.write() as tx:
                if delivery.kind == DeliveryKind.MESSAGE:
                    inbox.forget_delivery(tx, delivery, note)
                else:
                    inbox.settle_delivery(tx, delivery, note)
        for run in self._over:
            self._ended(run)

    def _message(self, delivery: Delivery, event: dict[str, Any], is_shared: bool) -> str | None:
        """Process a message; return why it is not kept, or None if it is settled already."""
        if event.get("subtype") in CHANGES:
            with self._store.write() as tx:
                if not inbox.is_new(tx, delivery):
                    return None
                now = self._clock.now()
                heeded = changed(tx, delivery, event, at=now, bot_user=self._bot_user)
                inbox.forget_delivery(tx, delivery, heeded.note)
            if heeded.ended is not None:
                self._ended(heeded.ended)
            return None
        if (
            event.get("bot_id")
            or event.get("subtype") not in WRITTEN
            or delivery.user in ("", self._bot_user)
        ):
            return "not a person's message"
        is_dm = event.get("channel_type") == "im"
        addressed = is_dm or f"<@{self._bot_user}" in (event.get("text") or "")
        if not addressed and not self._continues(delivery, event, is_shared=is_shared):
            return self._turned_away(delivery, event, is_shared=is_shared)
        if not self._authority.colleague(delivery.user):
            self._tell(delivery, "I take requests from full members of this workspace only.")
            return "not a colleague"
        if self._is_late(delivery, event):
            return "too old to begin"
        text = message_text(event, self._bot_user)
        closed = self._places.is_closed(delivery.channel, is_shared=is_shared)
        with self._store.write() as tx:
            if not inbox.is_new(tx, delivery):
                return None  # another process on this database was faster
            heard = addressed or takes_back(text)
            aside = closed and not takes_back(text)
            run = newest_run_of_thread(tx, delivery, is_shared=is_shared, closed=aside)
            # else words in a request's thread are its agent's
            if (run is None or "<@" in (event.get("text") or "")) and self._asks(delivery, text):
                inbox.forget_delivery(tx, delivery, "a question about approvals")
                return None
            still = run is not None and (run.status is R.WAITING or runs.is_form(run))
            if run is not None and still and not heard:
                self._hint(tx, delivery, run)
                inbox.settle_delivery(tx, delivery, "words change nothing while people decide")
            else:
                made = self._act(tx, delivery, run, text, in_private=closed)
                if made and is_shared:
                    say_where(tx, made, delivery, text)
        return None

    def _hint(self, tx: Transaction, delivery: Delivery, run: Run) -> None:
        """Tell the author, once per request, that words decide nothing and that buttons do."""
        if is_all_that_waits(tx, run):
            self._private(
                tx, delivery, request_sentences.answer_by_buttons(), key=f"hint:{run.id}:answer"
            )
        else:
            self._private(tx, delivery, refusals.words_decide_nothing(), key=f"hint:{run.id}")

    def _continues(self, delivery: Delivery, event: dict[str, Any], *, is_shared: bool) -> bool:
        """Return whether a message without a mention continues its author's own request there."""
        with self._store.read() as tx:
            run = newest_run_of_thread(tx, delivery, is_shared=is_shared)
            rooted = inbox.has(tx, f"msg:{delivery.team}:{delivery.channel}:{delivery.thread_ts}")
        if run is None or run.requester != delivery.user:
            return False
        if run.channel != delivery.channel:  # here they talk to the people of the other company
            return takes_back(message_text(event, self._bot_user))
        if runs.is_open(run):
            return True
        return rooted and "<@" not in (event.get("text") or "")

    def _turned_away(self, delivery: Delivery, event: dict[str, Any], *, is_shared: bool) -> str:
        """Refuse a stop of somebody else's request; return why the message is not kept.

        All other messages that are not for the bot get no reply.
        """
        with self._store.write() as tx:
            run = newest_run_of_thread(tx, delivery, is_shared=is_shared)
            is_stop = takes_back(message_text(event, self._bot_user))
            if run is None or not runs.is_open(run) or not is_stop:
                return "not addressed to the bot"
            self._private(tx, delivery, refusals.not_your_run(run.requester), mrkdwn=True)
        return "not the requester's stop"

    def _asks(self, delivery: Delivery, text: str) -> bool:
        """Answer the text if it is a question about approvals; return whether it was."""
        return self._questions(delivery.user, delivery.channel, delivery.thread_ts, text)

    def _act(
        self, tx: Transaction, delivery: Delivery, run: Run | None, text: str, *, in_private: bool
    ) -> Run | None:
        """Do what a message asks for; return the run that it begins, None if it begins none."""
        if text.lower().strip(" .!") == "help" or not text:
            self._say_help(tx, delivery, in_private=in_private)
            inbox.settle_delivery(tx, delivery, "help")
            return None
        if runs.is_form(run) and not (takes_back(text) and run and run.requester == delivery.user):
            run = None  # it goes on by itself, beside what is said here
        if run is not None and runs.is_open(run) and run.requester != delivery.user:
            if takes_back(text):
                self._private(tx, delivery, refusals.not_your_run(run.requester), mrkdwn=True)
            else:
                self._private(tx, delivery, refusals.waits_for(run.requester))
            inbox.settle_delivery(tx, delivery, "someone else's thread is busy")
            return None
        if takes_back(text):
            self._cancel(tx, delivery, run)
            return None
        if not self._has_model:
            invite(tx, delivery, in_private=in_private)
            inbox.settle_delivery(tx, delivery, "there is no model")
            return None
        return self._take_on(tx, delivery, run, in_private)

    def _take_on(
        self, tx: Transaction, delivery: Delivery, run: Run | None, in_private: bool
    ) -> Run | None:
        """Pass a message to the agent, in the open run or a new one; return the new one, if any."""
        made = hand_to_agent(tx, delivery, run, at=self._clock.now(), in_private=in_private)
        if made:
            self._greet(tx, delivery)
        return made

    def _cancel(self, tx: Transaction, delivery: Delivery, run: Run | None) -> None:
        now = self._clock.now()
        if run is None or not endings.cancel_run(
            tx, run, at=now, actor=delivery.user, words=outputs
        ):
            self._private(tx, delivery, refusals.nothing_to_cancel())
        else:
            outbox.notice(tx, run, f"cancelled:{run.id}", {"text": cancelled_line(delivery.user)})
            self._over.append(run)
        inbox.settle_delivery(tx, delivery, "cancel")

    def _event(self, delivery: Delivery, event: dict[str, Any]) -> str | None:
        match event["type"]:
            case "app_home_opened" if event.get("tab") == "home":
                self._home(delivery.user)
            case "app_home_opened":
                return self._opened(delivery, event)
            case "agent_session_stopped":
                return self._stopped(delivery, event)
            case "user_change" if (event.get("user") or {}).get("deleted"):
                self._known.heard(event)
                user, now = event["user"]["id"], self._clock.now()
                self._over += end_those_of(self._store, delivery.team, user, now)
            case "channel_id_changed" | "channel_shared":
                self._known.heard(event)
                self._channels.heed(delivery, event)
            case "tokens_revoked" | "app_uninstalled":
                log.error(
                    "Slack says %s: nothing can be posted until the app is installed again",
                    event["type"],
                )
            case _ if not self._known.heard(event):
                return "nothing to do"
        return str(event["type"])

    def _is_late(self, delivery: Delivery, event: dict[str, Any]) -> bool:
        """Return whether the message arrived too late to act on; if so, say that in its thread."""
        arrived = delivery.received_at - lead_over_world_time(self._clock)
        is_late = arrived.timestamp() - float(event["ts"]) > OLD.total_seconds()
        if is_late:
            key = f"late:{delivery.channel}:{event['ts']}"
            with self._store.write() as tx:
                outbox.put_line(
                    tx, key, delivery.channel, delivery.thread_ts, refusals.late_message()
                )
        return is_late

    def _opened(self, delivery: Delivery, event: dict[str, Any]) -> str | None:
        if event.get("tab") != "messages" or not self._authority.colleague(delivery.user):
            return "nothing to greet"
        with self._store.write() as tx:
            fresh = inbox.greet_once(tx, delivery.team, delivery.user, at=self._clock.now())
            if fresh:
                text = greeting(self._bot_user, self._titles(), has_model=self._has_model)
                key = f"greeting:{delivery.team}:{delivery.user}"
                outbox.put_line(tx, key, event["channel"], "", text)
            inbox.settle_delivery(tx, delivery, "greeted" if fresh else "known already")
        self._prompts(event["channel"])
        return None

    def _stopped(self, delivery: Delivery, event: dict[str, Any]) -> str:
        with self._store.write() as tx:
            run = runs.in_thread(tx, delivery.team, event["channel"], event.get("thread_ts", ""))
            if run is None or run.status not in RUN_OPEN:
                return "nothing to stop"
            if run.requester != delivery.user:
                self._private(tx, delivery, refusals.not_your_run(run.requester), mrkdwn=True)
                return "not the requester's stop"
            if not endings.cancel_run(
                tx, run, at=self._clock.now(), actor=delivery.user, words=outputs
            ):
                return "nothing to stop"
            outbox.notice(tx, run, f"cancelled:{run.id}", {"text": cancelled_line(delivery.user)})
        self._ended(run)
        return "stopped"

    def _greet(self, tx: Transaction, delivery: Delivery) -> None:
        """Explain the bot privately to a person who makes their first request."""
        if inbox.greet_once(tx, delivery.team, delivery.user, at=self._clock.now()):
            text = greeting(self._bot_user, self._titles(), has_model=self._has_model)
            self._private(tx, delivery, text, mrkdwn=True)

    def _say_help(self, tx: Transaction, delivery: Delivery, *, in_private: bool) -> None:
        text = help_text(self._titles(), has_model=self._has_model)
        if in_private:
            self._private(tx, delivery, text, mrkdwn=True)
            return
        outbox.put_line(tx, f"help:{delivery.seq}", delivery.channel, delivery.thread_ts, text)

    def _titles(self) -> list[tuple[str, str]]:
        return [(tool.title, tool.stated_effect) for tool in self._tools]

    def _private(
        self,
        tx: Transaction,
        delivery: Delivery,
        text: str,
        *,
        mrkdwn: bool = False,
        key: str = "",
    ) -> None:
        outbox.put_private(
            tx,
            key or f"private:{delivery.seq}",
            channel=delivery.channel,
            thread_ts=delivery.thread_ts,
            person=delivery.user,
            text=text,
            mrkdwn=mrkdwn,
        )

    def _tell(self, delivery: Delivery, text: str) -> None:
        with self._store.write() as tx:
            self._private(tx, delivery, text)


# Intake of messages to the agent that a person types elsewhere than in Slack.

# Passing messages to the agent, in the open run or in a new one.


def hand_to_agent(
    tx: Transaction, delivery: Delivery, run: Run | None, *, at: datetime, in_private: bool
) -> Run | None:
    """Pass a message to the agent, in the open run or in a new one; return the new one, if any.

    `run`: the newest of the thread. `in_private`: a new run belongs in direct messages: it goes on
    in the thread that it has there, or waits until its first message has been posted there.
    """
    made = None
    if run is None or not runs.is_open(run):
        if run is not None and run.status is RunStatus.FAILED:
            endings.close_calls_left_behind(tx, run, at=at, words=outputs)
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
        moves.insert_run(tx, run, at=at)
    elif run.status is RunStatus.WAITING:
        # a side turn: what waits goes on waiting, unless the model is asked to change it
        moves.run(tx, run, RunStatus.READY, at=at, actor=delivery.user)
    inbox.hold_message(tx, delivery, run.id)
    return made


@dataclass(frozen=True, slots=True)
class TypedWords:
    """Intake of messages typed elsewhere than in Slack; one per process, called by the loop only.

    `ended` is called for runs that were cancelled.
    """

    store: Store
    clock: Clock
    authority: Authority
    has_model: bool
    ended: Callable[[Run], None]

    def take(self, delivery: Delivery) -> bool:
        """Process a message typed elsewhere than in Slack; return False if the delivery is none.

        Raises LookupFailedError if it must be tried again later, NotYetKnownError while a person is
        still being looked up.
        """
        if delivery.kind is not DeliveryKind.TYPED:
            return False
        words = json.loads(delivery.body)["event"]["text"]
        colleague = self.authority.colleague(delivery.user)
        with self.store.write() as tx:
            if not inbox.is_new(tx, delivery):
                return True
            run = None
            if delivery.thread_ts:
                place = (delivery.team, delivery.channel, delivery.thread_ts)
                run = runs.in_thread(tx, *place)
            if runs.is_form(run):
                run = None  # it goes on by itself, beside what is said here
            refused = self._refused(delivery, run, is_colleague=colleague)
            if refused:
                tell(tx, delivery, refused)
                inbox.forget_delivery(tx, delivery, "refused")
            elif takes_back(words):
                self._cancel(tx, delivery, run)
            else:
                self._hear(tx, delivery, run, words)
        return True

    def _refused(self, delivery: Delivery, run: Run | None, *, is_colleague: bool) -> str:
        if not is_colleague:
            return notices.members_only_there()
        if not self.has_model:
            return notices.no_model_there()
        if run is not None and runs.is_open(run) and run.requester != delivery.user:
            return refusals.waits_for(run.requester)
        return ""

    def _hear(self, tx: Transaction, delivery: Delivery, run: Run | None, words: str) -> None:
        made = hand_to_agent(
            tx, delivery, run, at=self.clock.now(), in_private=not delivery.thread_ts
        )
        text = notices.typed_there(delivery.surface, delivery.user, words)
        if made and not made.thread_ts:
            outbox.put_root(tx, made, text, notice_blocks(text))
        elif about := made or run:
            outbox.notice(tx, about, f"typed:{delivery.seq}", {"text": text})

    def _cancel(self, tx: Transaction, delivery: Delivery, run: Run | None) -> None:
        at, actor = self.clock.now(), delivery.user
        if run is None or not endings.cancel_run(tx, run, at=at, actor=actor, words=outputs):
            tell(tx, delivery, refusals.nothing_to_cancel())
        else:
            line = notices.cancelled_line(actor)
            outbox.notice(tx, run, f"cancelled:{run.id}", {"text": line})
            self.ended(run)
        inbox.settle_delivery(tx, delivery, "cancel")
