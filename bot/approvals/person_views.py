"""The Home tab and lists of a person: what they may see, put together for one workspace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bot.approvals.call_state import effect_of
from bot.approvals.card_routing import still_away
from bot.approvals.delegation import Delegations
from bot.approvals.grants import GrantList
from bot.approvals.permissions import Permissions
from bot.approvals.person_questions import server_of, waiting_for
from bot.approvals.request_overview import Decidable, EntryLister, Overview, RequestHistories
from bot.cards import home_tab
from bot.cards.button_codec import CallTarget, HomePart, HomeTarget
from bot.cards.home_tab import HomeView, RememberedApproval, WaitingCall, WaitingQuestion
from bot.cards.notices import who_asks
from bot.identity import Identity
from bot.policy.authority import Authority
from bot.policy.evaluation import CurrentPolicy
from bot.tools import Effect
from bot.tools.effect_source import EffectSource
from storage import calls, outbox, request_lists, runs
from storage.masking import mask_secrets
from storage.models import Call, Run
from storage.states import CallStatus, RunStatus
from storage.transaction import Transaction

# The Home tab of one person: calls they may decide now, their requests, past decisions,
# delegations, saved approvals.

OF_LATE = timedelta(days=30)  # that decisions are shown of


@dataclass(frozen=True, slots=True)
class HomeViews:
    """Makes the Home views of one workspace; holds no state of its own."""

    bot: str  # its user id
    authority: Authority
    decidable: Decidable
    lister: EntryLister
    grants: GrantList
    delegations: Delegations

    def of(self, person: str, shows: HomeTarget) -> HomeView | None:
        """Return what this page of a person's Home tab shows; None if they are not a full member.

        Raises LookupFailedError.
        """
        if not self.authority.colleague(person):
            return None
        match shows.part:
            case HomePart.WAITING:
                return self._waiting(HomeView(self.bot, shows), person, home_tab.WAITING_PAGE)
            case HomePart.MINE:
                return self._requests(HomeView(self.bot, shows), person, home_tab.REQUESTS_PAGE)
            case HomePart.ALL:
                first = HomeView(self.bot, replace(shows, page=0))
                view = self._waiting(first, person, home_tab.WAITING)
                view = self._requests(view, person, home_tab.REQUESTS)
                return self._rest(replace(view, pages=1), person)

    def _waiting(self, view: HomeView, person: str, most: int) -> HomeView:
        now = self.grants.clock.now()
        say, channel = self.decidable.of(person, now), view.shows.channel
        found = [(call, run) for call, run in say.calls if channel in ("", run.channel)]
        pages = -(-len(found) // most)
        page = min(view.shows.page, max(0, pages - 1))
        here = found[page * most : (page + 1) * most]
        with self.grants.store.read() as tx:
            waiting = tuple(self._call(tx, call, run, person) for call, run in here)
        return replace(
            view,
            shows=replace(view.shows, page=page),
            pages=pages,
            waiting=waiting,
            questions=self._questions(person, now, channel) if page == 0 else (),
            more_waiting=len(found) - page * most - len(here),
            unread=say.unread,
            unsure=say.unsure,
        )

    def _questions(self, person: str, now: datetime, channel: str) -> tuple[WaitingQuestion, ...]:
        asked = waiting_for(self.grants.store, self.authority, person, now)
        mine = [each for each in asked if channel in ("", each.run.channel)][: home_tab.QUESTIONS]
        with self.grants.store.read() as tx:
            return tuple(
                WaitingQuestion(
                    target=CallTarget(each.call.id, each.call.revision),
                    question=mask_secrets(each.asked.question),
                    requester=each.run.requester,
                    deadline=each.call.deadline,
                    link=self.lister.link(tx, each.run, each.call, person),
                    asker=who_asks(each.run.source, server_of(each.run) or each.run.client),
                )
                for each in mine
            )

    def _call(self, tx: Transaction, call: Call, run: Run, person: str) -> WaitingCall:
        tool = self.grants.tools.of(call)
        return WaitingCall(
            target=CallTarget(call.id, call.revision),
            effect=effect_of(self.grants.tools, tx, call),
            does=call.does,
            requester=run.requester,
            client=run.client,
            channel=run.channel,
            deadline=call.deadline,
            link=self.lister.link(tx, run, call, person),
            unknown=call.status is CallStatus.UNKNOWN,
            stated=tool.stated if tool else EffectSource.BY_AUTHOR,
            warned=call.does == Effect.DESTRUCTIVE or bool(call.note),
        )

    def _requests(self, view: HomeView, person: str, most: int) -> HomeView:
        team, now, page = self.authority.team, self.grants.clock.now(), view.shows.page
        with self.grants.store.read() as tx:
            late = request_lists.recent_requests(
                tx, team, person, (page + 1) * most + 1, view.shows.channel
            )
            here = late[page * most : (page + 1) * most]
            requests = tuple(self.lister.run(tx, run, now) for run in here)
            noted = [each for run in here for each in _noted_away(tx, run)]
        more = len(late) > (page + 1) * most
        away = tuple(still_away(dict(noted), now))
        return replace(
            view, requests=requests, away=away, more_requests=more, pages=page + 1 + more
        )

    def _rest(self, view: HomeView, person: str) -> HomeView:
        """Return the view with decided calls, delegations and saved approvals added.

        The last two belong to no channel, and are left out if only one channel is shown.
        """
        team, since = self.authority.team, self.grants.clock.now() - OF_LATE
        channel = view.shows.channel
        with self.grants.store.read() as tx:
            found = request_lists.decided_calls(
                tx, team, person, since, home_tab.DECIDED + 1, channel
            )
            pairs = [(call, runs.get(tx, call.run_id)) for call in found[: home_tab.DECIDED]]
            decided = tuple(self.lister.call(tx, call, run, person) for call, run in pairs if run)
        view = replace(view, decided=decided, more_decided=len(found) > home_tab.DECIDED)
        if channel:
            return view
        remembered = self.grants.each(person)
        return replace(
            view,
            delegations=tuple(self.delegations.about(person)),
            remembered=tuple(
                RememberedApproval(grant.call_id, text)
                for grant, text in remembered[: home_tab.REMEMBERED]
            ),
            more_remembered=max(0, len(remembered) - home_tab.REMEMBERED),
        )


def _noted_away(tx: Transaction, run: Run) -> Iterator[tuple[str, str]]:
    """Yield the people noted as away on the cards of a waiting request, and until when."""
    plan = calls.open_plan(tx, run.id) if run.status is RunStatus.WAITING else None
    for card in outbox.cards(tx, plan.id) if plan else ():
        yield from outbox.body(card).get("away", {}).items()


@dataclass(frozen=True, slots=True)
class PersonViews:
    """Builds the lists, the Home views and the delegations of one workspace."""

    identity: Identity
    authority: Authority
    permissions: Permissions
    policy: CurrentPolicy
    grants: GrantList

    def delegations(self) -> Delegations:
        """Return the delegations: giving, ending and listing them."""
        return Delegations(self.grants.store, self.grants.clock, self.authority)

    def overview(self) -> Overview:
        """Return the lists of requests and decisions, for people who may read them."""
        store, clock, lister = self.grants.store, self.grants.clock, self._lister()
        lives = RequestHistories(
            store, clock, self.authority, self.permissions, self.policy, lister
        )
        return Overview(store, clock, self.identity.team, self._decidable(), lister, lives)

    def homes(self) -> HomeViews:
        """Return the maker of Home views."""
        return HomeViews(
            bot=self.identity.user,
            authority=self.authority,
            decidable=self._decidable(),
            lister=self._lister(),
            grants=self.grants,
            delegations=self.delegations(),
        )

    def _decidable(self) -> Decidable:
        return Decidable(self.grants.store, self.permissions)

    def _lister(self) -> EntryLister:
        return EntryLister(self.grants.tools, self.identity.workspace)
