"""The Home tab and lists of a person: what they may see, put together for one workspace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bot.approvals import request_overview
from bot.approvals.call_state import describe_call_effect
from bot.approvals.card_routing import filter_people_still_away
from bot.approvals.delegation import DelegationManager
from bot.approvals.grants import GrantManager
from bot.approvals.passkeys import PasskeyManager
from bot.approvals.permissions import PermissionChecker
from bot.approvals.person_questions import get_asking_server_name, list_questions_for_person
from bot.cards import home_tab
from bot.cards.button_codec import CallTarget, HomeTabPart, HomeTabTarget
from bot.cards.notices import describe_asker
from bot.identity import Identity
from bot.policy.authority import Authority
from bot.policy.evaluation import CurrentPolicy
from bot.tools import Effect, EffectSource
from storage import calls, outbox, request_lists, runs
from storage.masking import mask_secrets
from storage.record import Call, Run, Transaction
from storage.states import CallStatus, RunStatus

# The Home tab of one person: calls they may decide now, their requests, past decisions,
# delegations, saved approvals.

RECENT_DECISIONS_PERIOD = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class HomeViewBuilder:
    """Makes the Home views of one workspace; holds no state of its own."""

    bot: str  # its user id
    authority: Authority
    decidable: request_overview.DecidableCallFinder
    lister: request_overview.ListEntryBuilder
    grants: GrantManager
    delegations: DelegationManager
    passkeys: PasskeyManager

    def build_home_view(self, person: str, shows: HomeTabTarget) -> home_tab.HomeView | None:
        """Return what this page of a person's Home tab shows; None if they are not a full member.

        Raises LookupFailedError.
        """
        if not self.authority.is_active_colleague(person):
            return None
        match shows.part:
            case HomeTabPart.WAITING:
                return self._add_waiting_calls(
                    home_tab.HomeView(self.bot, shows), person, home_tab.WAITING_CALLS_PER_PAGE
                )
            case HomeTabPart.MINE:
                return self._add_requests(
                    home_tab.HomeView(self.bot, shows), person, home_tab.REQUESTS_PER_PAGE
                )
            case HomeTabPart.ALL:
                first = home_tab.HomeView(self.bot, replace(shows, page=0))
                view = self._add_waiting_calls(first, person, home_tab.MAX_WAITING_CALLS)
                view = self._add_requests(view, person, home_tab.MAX_REQUESTS)
                view = self._add_decisions_and_grants(replace(view, pages=1), person)
                return replace(view, signs=self.passkeys.may_enrol(person))
            case HomeTabPart.PASSKEYS:
                return home_tab.HomeView(
                    self.bot,
                    shows,
                    signs=self.passkeys.may_enrol(person),
                    passkeys=self.passkeys.list_passkeys(person, self.grants.clock.now()),
                )

    def _add_waiting_calls(
        self, view: home_tab.HomeView, person: str, limit: int
    ) -> home_tab.HomeView:
        now = self.grants.clock.now()
        say, channel = self.decidable.list_decidable_calls(person, now), view.shows.channel
        waiting_calls = [(call, run) for call, run in say.calls if channel in ("", run.channel)]
        pages = -(-len(waiting_calls) // limit)
        page = min(view.shows.page, max(0, pages - 1))
        calls_on_page = waiting_calls[page * limit : (page + 1) * limit]
        with self.grants.store.read() as tx:
            waiting = tuple(
                replace(
                    self._build_waiting_call(tx, call, run, person),
                    represented_person=say.represented_people[call.id],
                )
                for call, run in calls_on_page
            )
        return replace(
            view,
            shows=replace(view.shows, page=page),
            pages=pages,
            waiting=waiting,
            questions=self._list_waiting_questions(person, now, channel) if page == 0 else (),
            more_waiting=len(waiting_calls) - page * limit - len(calls_on_page),
            has_unlisted_calls=say.has_more,
            unsure_count=say.unknown_count,
        )

    def _list_waiting_questions(
        self, person: str, now: datetime, channel: str
    ) -> tuple[home_tab.HomeWaitingQuestion, ...]:
        all_questions = list_questions_for_person(self.grants.store, self.authority, person, now)
        shown_questions = [each for each in all_questions if channel in ("", each.run.channel)][
            : home_tab.MAX_QUESTIONS
        ]
        with self.grants.store.read() as tx:
            return tuple(
                home_tab.HomeWaitingQuestion(
                    target=CallTarget(each.call.id, each.call.revision),
                    question=mask_secrets(each.asked.question),
                    requester=each.run.requester,
                    deadline=each.call.deadline,
                    link=self.lister.build_card_or_request_permalink(
                        tx, each.run, each.call, person
                    ),
                    asker=describe_asker(
                        each.run.source, get_asking_server_name(each.run) or each.run.client
                    ),
                )
                for each in shown_questions
            )

    def _build_waiting_call(
        self, tx: Transaction, call: Call, run: Run, person: str
    ) -> home_tab.HomeWaitingCall:
        tool = self.grants.tools.find_tool_of_call(call)
        return home_tab.HomeWaitingCall(
            target=CallTarget(call.id, call.revision),
            effect=describe_call_effect(self.grants.tools, tx, call),
            does=call.does,
            requester=run.requester,
            client=run.client,
            channel=run.channel,
            deadline=call.deadline,
            link=self.lister.build_card_or_request_permalink(tx, run, call, person),
            is_outcome_unknown=call.status is CallStatus.UNKNOWN,
            is_to_be_looked_at=calls.is_to_be_looked_at(call),
            effect_source=tool.effect_source if tool else EffectSource.BY_AUTHOR,
            has_warnings=call.does == Effect.DESTRUCTIVE or bool(call.note),
        )

    def _add_requests(self, view: home_tab.HomeView, person: str, limit: int) -> home_tab.HomeView:
        team, now, page = self.authority.team, self.grants.clock.now(), view.shows.page
        with self.grants.store.read() as tx:
            late = request_lists.list_recent_requests(
                tx, team, person, (page + 1) * limit + 1, view.shows.channel
            )
            here = late[page * limit : (page + 1) * limit]
            requests = tuple(self.lister.build_run_entry(tx, run, now) for run in here)
            noted = [each for run in here for each in _list_noted_absences(tx, run)]
        more = len(late) > (page + 1) * limit
        away = tuple(filter_people_still_away(dict(noted), now))
        return replace(
            view, requests=requests, away_approvers=away, more_requests=more, pages=page + 1 + more
        )

    def _add_decisions_and_grants(self, view: home_tab.HomeView, person: str) -> home_tab.HomeView:
        """Return the view with decided calls, delegations and saved approvals added.

        The last two belong to no channel, and are left out if only one channel is shown.
        """
        team, since = self.authority.team, self.grants.clock.now() - RECENT_DECISIONS_PERIOD
        channel = view.shows.channel
        with self.grants.store.read() as tx:
            decided_calls = request_lists.list_decided_calls_involving_person(
                tx, team, person, since, home_tab.MAX_DECIDED_CALLS + 1, channel
            )
            decided = tuple(
                self.lister.build_call_entry(tx, call, runs.get_run(tx, call.run_id), person)
                for call in decided_calls[: home_tab.MAX_DECIDED_CALLS]
            )
        view = replace(
            view, decided=decided, more_decided=len(decided_calls) > home_tab.MAX_DECIDED_CALLS
        )
        if channel:
            return view
        remembered = self.grants.list_revocable_grants(person)
        return replace(
            view,
            delegations=tuple(self.delegations.list_delegations(person)),
            remembered=tuple(
                home_tab.SavedApprovalView(grant.call_id, text)
                for grant, text in remembered[: home_tab.MAX_SAVED_APPROVALS]
            ),
            more_remembered=max(0, len(remembered) - home_tab.MAX_SAVED_APPROVALS),
        )


def _list_noted_absences(tx: Transaction, run: Run) -> Iterator[tuple[str, str]]:
    """Yield the people noted as away on the cards of a waiting request, and until when."""
    plan = calls.find_open_plan(tx, run.id) if run.status is RunStatus.WAITING else None
    for card in outbox.list_cards_of_plan(tx, plan.id) if plan else ():
        yield from outbox.parse_message_body(card).get("away", {}).items()


@dataclass(frozen=True, slots=True)
class PersonViewFactory:
    """Builds the lists, the Home views and the delegations of one workspace."""

    identity: Identity
    authority: Authority
    permissions: PermissionChecker
    policy: CurrentPolicy
    grants: GrantManager
    passkeys: PasskeyManager

    def build_delegation_manager(self) -> DelegationManager:
        """Return the object that gives, ends and lists delegations."""
        return DelegationManager(self.grants.store, self.grants.clock, self.authority)

    def build_overview(self) -> request_overview.RequestOverview:
        """Return the lists of requests and decisions, for people who may read them."""
        store, clock, lister = self.grants.store, self.grants.clock, self._build_entry_builder()
        lives = request_overview.RequestHistoryReader(
            store, clock, self.authority, self.permissions, self.policy, lister
        )
        return request_overview.RequestOverview(
            store, clock, self.identity.team, self._build_call_finder(), lister, lives
        )

    def build_home_view_builder(self) -> HomeViewBuilder:
        """Return the maker of Home views."""
        return HomeViewBuilder(
            bot=self.identity.user,
            authority=self.authority,
            decidable=self._build_call_finder(),
            lister=self._build_entry_builder(),
            grants=self.grants,
            delegations=self.build_delegation_manager(),
            passkeys=self.passkeys,
        )

    def _build_call_finder(self) -> request_overview.DecidableCallFinder:
        return request_overview.DecidableCallFinder(self.grants.store, self.permissions)

    def _build_entry_builder(self) -> request_overview.ListEntryBuilder:
        return request_overview.ListEntryBuilder(self.grants.tools, self.identity.workspace)
