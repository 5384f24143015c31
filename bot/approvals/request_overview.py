"""The lists that `/approvals` shows a person. Looks people up: its thread may have to wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bot.approvals import call_state, call_views, person_questions
from bot.approvals.permissions import PermissionChecker
from bot.cards import request_list, slack_text
from bot.cards.notices import describe_wordless_request_origin
from bot.clock import Clock
from bot.policy.authority import Authority, Denial, LookupFailedError, Permission
from bot.policy.evaluation import CurrentPolicy
from bot.policy.gates import Ask, load_gate
from bot.tools import Registry
from storage import call_history, calls, outbox, request_lists, runs, schedule, trail
from storage.masking import mask_secrets
from storage.record import Call, Run, Store, Transaction, Vote
from storage.states import CALL_APPROVED_STATUSES, CallStatus, CallVerb

# The calls a person may decide or resolve now. Looks people up: for a thread that may wait.

FOREVER = timedelta(days=36_500)
MAX_CALLS_EXAMINED = 50  # to find those the person may decide
_VERB_BY_STATUS = {CallStatus.PENDING: CallVerb.APPROVE, CallStatus.UNKNOWN: CallVerb.RESOLVE}


@dataclass(frozen=True, slots=True)
class DecidableCalls:
    """The calls that a person may decide or resolve now."""

    calls: tuple[tuple[Call, Run], ...]
    represented_people: Mapping[str, str]  # by call id: whom a delegate decides for; "" for oneself
    unknown_count: int  # number of calls for which a look-up in Slack failed
    has_more: bool  # whether some were not examined


@dataclass(frozen=True, slots=True)
class DecidableCallFinder:
    """Finds the calls a person may decide, in one workspace; holds no state of its own."""

    store: Store
    permissions: PermissionChecker

    def list_decidable_calls(self, person: str, now: datetime) -> DecidableCalls:
        """Return the calls that this person may decide, resolve or look at now.

        Calls that ran without approval come first, then those of unknown outcome, then pending
        ones; at the very end those of which the person is not notified. Pending calls that are
        approved already, or that the person has voted on, are left out.
        """
        with self.store.read() as tx:
            team, most = self.permissions.authority.team, MAX_CALLS_EXAMINED + 1
            unknown = request_lists.list_waiting_calls(tx, team, now, most, CallStatus.UNKNOWN)
            # all calls that ran without approval, whenever their next reminder is due
            ran = schedule.list_calls_to_look_at(tx, now + FOREVER)
            candidates = [each for each in ran if calls.is_to_be_looked_at(each)]
            candidates += [*unknown, *request_lists.list_waiting_calls(tx, team, now, most)]
            judged: list[tuple[Call, Run]] = []
            for call in candidates[:MAX_CALLS_EXAMINED]:
                run = runs.get_run(tx, call.run_id)
                is_done = _has_voted(tx, call, person) or calls.is_scheduled(call)
                if run.team == team and not is_done:
                    judged.append((call, run))
        verdicts = [
            self.permissions.judge_action(_get_wanted_verb(call), call, run, person, at=now)
            for call, run in judged
        ]
        allowed = [
            (each, verdict)
            for each, verdict in zip(judged, verdicts, strict=True)
            if isinstance(verdict, Permission)
        ]
        allowed.sort(key=lambda pair: pair[1].is_silent)  # calls they are not notified of come last
        decidable_calls = tuple(each for each, _ in allowed)
        whose = {call.id: verdict.delegator for (call, _), verdict in allowed}
        unknown_count = verdicts.count(Denial.LOOKUP)
        return DecidableCalls(
            decidable_calls, whose, unknown_count, len(candidates) > MAX_CALLS_EXAMINED
        )


def _get_wanted_verb(call: Call) -> CallVerb:
    return CallVerb.LOOK if calls.is_to_be_looked_at(call) else _VERB_BY_STATUS[call.status]


def _has_voted(tx: Transaction, call: Call, person: str) -> bool:
    """Return whether the person has voted on a pending call, or a delegate has for them."""
    votes = calls.list_votes_on_revision(tx, call.id, call.revision)
    said = {who for vote in votes for who in (vote.person, vote.for_person)}
    return call.status is CallStatus.PENDING and person in said


# Entries of lists: a request by its first words, a call with those who decided it.

MAX_CALLS_SHOWN = 4  # for each request


@dataclass(frozen=True, slots=True)
class ListEntryBuilder:
    """Makes the entries of lists of calls and requests, in one workspace."""

    tools: Registry
    workspace: str  # its Slack address; "" if not known

    def build_call_entry(
        self, tx: Transaction, call: Call, run: Run, viewer: str
    ) -> request_list.ListedCall:
        """Return a call as an entry for the lists of calls that `viewer` sees."""
        waits = calls.is_waiting_for_people(call)
        votes = calls.list_votes_on_revision(tx, call.id, call.revision)
        return request_list.ListedCall(
            run=run.id,
            effect=call_state.describe_call_effect(self.tools, tx, call),
            status=calls.get_shown_status(call),
            requester=run.requester,
            channel=run.channel,
            deadline=call.deadline,
            starts_at=call.starts_at if calls.is_scheduled(call) else None,
            decided_at=None if waits else call.decided_at,
            deciders=_list_decider_mentions(call, votes),
            unapproved=call_state.find_break_glass_vote(votes) is not None,
            link=self.build_card_or_request_permalink(tx, run, call, viewer),
        )

    def build_run_entry(self, tx: Transaction, run: Run, now: datetime) -> request_list.ListedRun:
        """Return a request as an entry for its requester's list, with its last calls.

        Only calls that change something or were asked are listed.
        """
        reportable_calls = [
            call
            for call in calls.list_calls_of_request(tx, run.id)
            if call.status is not CallStatus.REFUSED and (call.asked_at or call.does != "read")
        ]
        last_calls = reportable_calls[-MAX_CALLS_SHOWN:]
        return request_list.ListedRun(
            run=run.id,
            words=get_first_message_text(tx, run, now),
            asked_at=run.created_at,
            status=run.status,
            calls=tuple(
                (
                    calls.get_shown_status(call),
                    call_state.describe_call_effect(self.tools, tx, call),
                    person_questions.is_question_to_person(call),
                    call_history.was_question_declined(tx, call),
                )
                for call in last_calls
            ),
            more_calls=len(reportable_calls) - len(last_calls),
            link=self.build_card_or_request_permalink(
                tx, run, last_calls[-1] if last_calls else None, run.requester
            ),
            origin_text=describe_origin_as_plain_text(run),
        )

    def build_card_or_request_permalink(
        self, tx: Transaction, run: Run, call: Call | None, viewer: str
    ) -> str:
        """Return the address of the call's card in a channel, else of the request; "" for none.

        Nobody can open another person's direct message: others get the card in their own.
        """
        cards = outbox.list_cards_of_plan(tx, call.plan_id) if call else []
        posted_cards = [
            row
            for row in cards
            if call and row.ts and call.id in outbox.parse_message_body(row)["calls"]
        ]
        channel_cards = [row for row in posted_cards if row.channel[:1] in ("C", "G")]
        if not run.channel.startswith("D") or viewer == run.requester:
            cards_in_run_channel = [row for row in posted_cards if row.channel == run.channel]
            places = [
                (row.channel, row.ts, row.thread_ts)
                for row in (*cards_in_run_channel, *channel_cards)
            ]
            places.append((run.channel, run.thread_ts, ""))
        else:
            viewer_cards = [row for row in posted_cards if row.key.endswith(f":{viewer}")]
            places = [
                (row.channel, row.ts, row.thread_ts) for row in (*channel_cards, *viewer_cards)
            ]
        return request_list.format_permalink(self.workspace, *places[0]) if places else ""


def get_first_message_text(tx: Transaction, run: Run, now: datetime) -> str:
    """Return the text a request began with, on one line; "" if there is none or it is unread."""
    return next(iter(call_views.list_request_texts(tx, run, now)), "")


def describe_origin_as_plain_text(run: Run) -> str:
    """Return how a request without a message was made, as text; "" for one with a message."""
    return slack_text.unescape_mrkdwn(describe_wordless_request_origin(run.source, run.client))


def _list_decider_mentions(call: Call, votes: Sequence[Vote]) -> tuple[str, ...]:
    """Return the people whose votes decided the call, as mentions; empty if no votes did."""
    if call.status is CallStatus.REJECTED:
        counted = [vote for vote in votes if vote.verb is CallVerb.REJECT]
    elif call.status in CALL_APPROVED_STATUSES:
        counted = call_state.list_deciding_votes(votes)
    else:
        return ()
    proxies = call_state.map_delegators_to_delegates(votes)
    return tuple(
        dict.fromkeys(slack_text.decider_mention(vote.counted_person, proxies) for vote in counted)
    )


@dataclass(frozen=True, slots=True)
class RequestHistoryReader:
    """Full records of requests in one workspace; holds no state of its own."""

    store: Store
    clock: Clock
    authority: Authority
    permissions: PermissionChecker
    policy: CurrentPolicy
    lister: ListEntryBuilder

    def find_history(self, person: str, reference: str) -> request_list.RequestHistory | None:
        """Return the record of the request with this link, its id, or the id of one of its calls.

        None if this person may not read it or it does not exist. The reading is recorded in the
        audit. Raises LookupFailedError.
        """
        place, team = request_list.parse_permalink(reference), self.authority.team
        with self.store.read() as tx:
            run = (
                request_lists.find_request_of_message(tx, team, *place)
                if place
                else request_lists.find_request_by_id_or_digest(tx, team, reference)
            )
            request_calls = calls.list_calls_of_request(tx, run.id) if run else []
            votes = [
                vote
                for call in request_calls
                for vote in call_history.list_votes_on_all_revisions(tx, call.id)
            ]
            voted = {who for vote in votes for who in (vote.person, vote.counted_person)}
        if run is None or not self._may_read(person, run, request_calls, voted):
            return None
        now = self.clock.now()
        with self.store.write() as tx:
            data = {"calls": [call.id for call in request_calls]}
            trail.record_event(tx, "request.read", at=now, actor=person, run_id=run.id, data=data)
        with self.store.read() as tx:
            return self._build_history(tx, run, request_calls, now, person)

    def _may_read(self, person: str, run: Run, found: Sequence[Call], voted: set[str]) -> bool:
        if person in {run.requester, *voted}:
            return True
        verdicts = [
            self.permissions.judge_action(CallVerb.REJECT, call, run, person, at=self.clock.now())
            for call in found
            if call.status is not CallStatus.REFUSED and isinstance(load_gate(call.gate), Ask)
        ]
        if any(isinstance(each, Permission) for each in verdicts):
            return True
        if self.may_read_every_request(person):
            return True
        if Denial.LOOKUP in verdicts:
            raise LookupFailedError("whether somebody may read a request could not be looked up")
        return False

    def may_read_every_request(self, person: str) -> bool:
        """Return whether policy lets this person read every request; raises LookupFailedError."""
        readers = self.policy.policy.readers
        return person in self.authority.list_named_people(readers, requester="", channel="")

    def _build_history(
        self, tx: Transaction, run: Run, found: Sequence[Call], now: datetime, person: str
    ) -> request_list.RequestHistory:
        return request_list.RequestHistory(
            run=run.id,
            words=get_first_message_text(tx, run, now),
            requester=run.requester,
            channel=run.channel,
            asked_at=run.created_at,
            status=run.status,
            calls=tuple(self._build_past_call(tx, run, call) for call in found),
            link=self.lister.build_card_or_request_permalink(
                tx, run, found[-1] if found else None, person
            ),
            origin_text=describe_origin_as_plain_text(run),
        )

    def _build_past_call(
        self, tx: Transaction, run: Run, call: Call
    ) -> request_list.CallHistoryEntry:
        revisions = calls.list_revisions(tx, call.id)
        return request_list.CallHistoryEntry(
            effect=call_state.describe_call_effect(self.lister.tools, tx, call),
            tool=call.tool,
            status=call.status,
            digest=call.digest,
            reason=mask_secrets(call.reason),
            revisions=tuple(
                request_list.PastRevision(
                    number=each.number,
                    author=resolve_revision_author_id(run, each.author),
                    made_at=each.created_at,
                    values=call_views.build_argument_values(self.lister.tools, call, each, before),
                )
                for each, before in zip(revisions, (*revisions[:1], *revisions), strict=False)
            ),
            votes=list_past_votes(tx, call),
            hand_overs=tuple(
                (row.at, row.actor, trail.get_audit_row_data(row)["to"])
                for row in trail.list_audit_rows_of_request(tx, run.id)
                if (row.call_id, row.event) == (call.id, "call.assigned")
            ),
            deadline=call.deadline,
            decided_at=call.decided_at,
            finished_at=call.finished_at,
            note=mask_secrets(call.note),
            agent=self._describe_proposer(tx, call),
            declined=call_history.was_question_declined(tx, call),
        )

    def _describe_proposer(self, tx: Transaction, call: Call) -> str:
        """Return who proposed the call: a sub-agent by title, a server by name, or "the agent"."""
        run = runs.get_run(tx, call.run_id)
        if name := person_questions.get_asking_server_name(run):
            return f"the server {name}"
        tasks = call_views.list_tasks_leading_to_run(self.lister.tools, tx, run)
        return tasks[-1].agent if tasks else "the agent"


def list_past_votes(tx: Transaction, call: Call) -> tuple[request_list.PastVote, ...]:
    """Return the votes on all revisions of a call, oldest first; secrets are masked."""
    return tuple(
        request_list.PastVote(
            person=each.person,
            represented_person=each.for_person,
            verb=each.verb,
            revision=each.revision,
            stage=each.stage,
            voted_at=each.created_at,
            words=mask_secrets(each.reason),
        )
        for each in call_history.list_votes_on_all_revisions(tx, call.id)
    )


def resolve_revision_author_id(run: Run, author: str) -> str:
    """Return who wrote a revision: an editor, the requester of a form, or "" for the agent."""
    return {calls.AGENT_AUTHOR: "", calls.FORM_AUTHOR: run.requester}.get(author, author)


@dataclass(frozen=True, slots=True)
class RequestOverview:
    """Lists requests and decisions for the people of one workspace; holds no state of its own."""

    store: Store
    clock: Clock
    team: str
    decidable: DecidableCallFinder
    lister: ListEntryBuilder
    histories: RequestHistoryReader

    def render_decidable_calls(self, person: str) -> request_list.SlashCommandAnswer:
        """Return what this person may decide now, the first deadline first."""
        now = self.clock.now()
        say = self.decidable.list_decidable_calls(person, now)
        questions = len(
            person_questions.list_questions_for_person(
                self.store, self.histories.authority, person, now
            )
        )
        with self.store.read() as tx:
            entries = [
                replace(
                    self.lister.build_call_entry(tx, call, run, person),
                    represented_person=say.represented_people[call.id],
                )
                for call, run in say.calls[: request_list.MAX_ENTRIES]
            ]
        more = len(say.calls) - len(entries)
        return request_list.render_waiting_call_list(
            entries, more=more, unsure=say.unknown_count, unread=say.has_more, questions=questions
        )

    def render_own_requests(self, person: str) -> request_list.SlashCommandAnswer:
        """Return this person's own requests, the newest first."""
        with self.store.read() as tx:
            late = request_lists.list_recent_requests(
                tx, self.team, person, request_list.MAX_ENTRIES + 1
            )
            now = self.clock.now()
            found = [
                self.lister.build_run_entry(tx, run, now)
                for run in late[: request_list.MAX_ENTRIES]
            ]
        return request_list.render_request_list(found, more=len(late) > request_list.MAX_ENTRIES)

    def render_decisions(self, person: str, days: int) -> request_list.SlashCommandAnswer:
        """Return the decisions this person made in so many days, and those on their requests."""
        since = self.clock.now() - timedelta(days=days)
        with self.store.read() as tx:
            late = request_lists.list_decided_calls_involving_person(
                tx, self.team, person, since, request_list.MAX_ENTRIES + 1
            )
            found = [
                self.lister.build_call_entry(tx, call, runs.get_run(tx, call.run_id), person)
                for call in late[: request_list.MAX_ENTRIES]
            ]
        return request_list.render_decision_list(
            found, days, more=len(late) > request_list.MAX_ENTRIES
        )

    def render_request_history(
        self, person: str, reference: str
    ) -> request_list.SlashCommandAnswer | None:
        """Return a request's full record, given its link, its id or the id of one of its calls.

        None if there is none that this person may read. Raises LookupFailedError.
        """
        history = self.histories.find_history(person, reference)
        return request_list.render_request_history(history) if history else None
