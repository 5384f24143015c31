"""Builds the core: the parts that decide on calls and run them, without Slack and the model.

For the composition root, the tests and the benchmarks only: each part is passed what it uses, and
none of them imports this file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any

from anyio.from_thread import BlockingPortal

from bot.agent.turn import ModelPlanner
from bot.approvals.call_checks import UsageLimits
from bot.approvals.call_gates import PolicyFactSources
from bot.approvals.deadlines import CallExpirer
from bot.approvals.delegation import DelegateNotifier
from bot.approvals.dialog_access import CardViewers, DialogAccessChecker, PreviewRowsSender
from bot.approvals.edits import EditHandler, EditSubmissionHandler
from bot.approvals.form_catalog import list_template_problems
from bot.approvals.form_requests import FormRequestStarter, FormServiceFactory
from bot.approvals.grants import GrantManager
from bot.approvals.hand_overs import HandOverHandler
from bot.approvals.passkeys import PasskeyManager
from bot.approvals.permissions import DeliverySettler, PermissionChecker
from bot.approvals.person_views import PersonViewFactory
from bot.approvals.question_answers import AnswerHandler, ReplyAnswerHandler
from bot.approvals.reminders import ReminderSender
from bot.approvals.request_changes import PlanChangeHandler, RequestActionHandler
from bot.approvals.signatures import SigningLinks
from bot.approvals.signed_votes import SignatureHandler, SignatureRequester
from bot.approvals.unknown_calls import UnknownCallResolver
from bot.approvals.votes import VoteHandler
from bot.cards.action_names import DialogId
from bot.clock import Clock
from bot.config.connection_settings import get_page_host
from bot.config.settings import Settings
from bot.config.startup import PolicyReloader
from bot.identity import Identity
from bot.policy.authority import Authority, Directory
from bot.policy.evaluation import CurrentPolicy
from bot.runs import ports
from bot.runs.compaction import CompactingPlanner
from bot.runs.direct_turns import DirectCallTurnTaker
from bot.runs.elicitations import ElicitationBroker
from bot.runs.endings import CallOutcomeStore
from bot.runs.executor import CallExecutor
from bot.runs.intake import MessageIntake, NonSlackMessageIntake
from bot.runs.loop import ClickDispatcher, MainLoop, TickActions
from bot.runs.plans import MissingCardPoster
from bot.runs.program_calls import ProgramCallClaimManager
from bot.runs.program_requests import ProgramRequests
from bot.runs.proposals import ProposalPreparer
from bot.runs.restoration import RestoredRecordSettler
from bot.runs.shared_channels import ChannelChangeHandler
from bot.runs.surfaces import Host, NamedSurface, create_surfaces
from bot.runs.turns import ModelTurnTaker
from bot.runs.worker import RunWorker
from bot.runs.worker_pool import OtherProcesses, WorkerPool
from bot.signals import Signals
from bot.tools import Registry
from bot.tools.preview import PreviewRunner
from storage.record import Delivery, Run, Store
from storage.states import MODEL_DRIVEN_SOURCES, DeliveryKind, RunSource
from storage.transcripts import TranscriptCache


@dataclass(frozen=True, slots=True)
class Core:
    """The settings, store, policy and other shared parts, with methods that build the rest."""

    settings: Settings
    store: Store
    clock: Clock
    policy: CurrentPolicy
    tools: Registry
    authority: Authority
    directory: Directory
    identity: Identity
    key: bytes
    signals: Signals = field(default_factory=Signals)
    transcripts: TranscriptCache = field(default_factory=TranscriptCache)
    previews: PreviewRunner = field(default_factory=PreviewRunner)
    viewers: CardViewers = field(default_factory=CardViewers)

    def copy_with_directory(self, directory: Directory) -> Core:
        """Return a copy with another directory, such as one that waits less long for Slack."""
        authority = Authority(directory, self.identity.team, self.authority.find_delegates)
        return replace(self, directory=directory, authority=authority)

    def build_policy_fact_sources(self) -> PolicyFactSources:
        """Return the policy with the directory, store and clock that it takes to evaluate it."""
        host = get_page_host(self.settings.url)
        return PolicyFactSources(self.policy, self.directory, self.store, self.clock, host)

    def build_permission_checker(self) -> PermissionChecker:
        """Return the checks of who may do what to a call."""
        return PermissionChecker(self.store, self.clock, self.authority)

    def build_edit_handler(self) -> EditHandler:
        """Return the object that checks and stores edits of a call's arguments."""
        return EditHandler(
            sources=self.build_policy_fact_sources(),
            authority=self.authority,
            tools=self.tools,
            permissions=self.build_permission_checker(),
            key=self.key,
            previews=self.previews,
            wake=self.signals.work.notify,
        )

    def build_click_dispatcher(
        self, ended: Callable[[Run], None] = ports.ignore_run_end
    ) -> ClickDispatcher:
        """Return the handler of clicks and dialogs; `ended` is called with each cancelled run."""
        permissions, grants = self.build_permission_checker(), self.build_grant_manager()
        ended, replies = self._wrap_ended_callback(ended), DeliverySettler(self.store)
        access = DialogAccessChecker(self.store, self.clock, permissions)
        links = self.build_signing_links()
        signatures = SignatureRequester(links, self.policy, self.tools, access)
        votes = VoteHandler(permissions, grants, signatures)
        unknown_calls = UnknownCallResolver(replies, permissions, signatures)
        signed = SignatureHandler(
            self.store,
            permissions,
            signatures,
            votes.cast_votes,
            unknown_calls.resolve_unknown_call,
        )
        views, passkeys = self.build_person_view_factory(), self.build_passkey_manager()
        handlers = (
            votes,
            AnswerHandler(self.store, self.authority),
            views.build_delegation_manager(),
            passkeys,
            PlanChangeHandler(replies, self.tools, permissions, self.settings.max_rounds),
            RequestActionHandler(replies, permissions, ended),
            unknown_calls,
            PreviewRowsSender(self.store, access),
            HandOverHandler(replies, self.tools, self.authority, permissions),
            grants,
        )
        edits = EditSubmissionHandler(self.build_edit_handler(), votes, replies)
        acts = {act: do for each in handlers for act, do in each.get_action_handlers().items()}
        return ClickDispatcher(
            self.authority,
            replies,
            acts
            | {
                DialogId.EDIT: edits.handle_edit,
                DialogId.REQUEST: FormRequestStarter(self.forms()).start_request,
            },
            {
                DeliveryKind.SIGNATURE: signed.handle_signature,
                DeliveryKind.ENROLMENT: passkeys.handle_enrolment,
            },
        )

    def build_passkey_manager(self) -> PasskeyManager:
        """Return the object that adds, lists, renames and revokes passkeys."""
        permissions, links = self.build_permission_checker(), self.build_signing_links()
        return PasskeyManager(self.store, self.policy, self.authority, permissions, links)

    def build_signing_links(self) -> SigningLinks:
        """Return the object that issues private links to the page where people sign."""
        return SigningLinks(self.key, self.settings.url)

    def _wrap_ended_callback(self, ended: Callable[[Run], None]) -> Callable[[Run], None]:
        return ports.build_run_end_broadcaster(ended, self.signals.live)

    def forms(self) -> FormServiceFactory:
        """Return the factory of the handlers of requests made with a form, without the agent."""
        wake, me = self.signals.work.notify, self.identity
        return FormServiceFactory(
            self.build_policy_fact_sources(), self.authority, self.tools, me, self.previews, wake
        )

    def build_grant_manager(self) -> GrantManager:
        """Return the object that gives, lists and ends grants (saved approvals)."""
        return GrantManager(self.store, self.clock, self.tools, self.identity.team, self.policy)

    def build_person_view_factory(self) -> PersonViewFactory:
        """Return the object that builds one person's lists, Home tab and delegations."""
        return PersonViewFactory(
            self.identity,
            self.authority,
            self.build_permission_checker(),
            self.policy,
            self.build_grant_manager(),
            self.build_passkey_manager(),
        )

    def build_intake(
        self,
        update_directory: Callable[[Mapping[str, Any]], bool],
        prompts: Callable[[str], None],
        ended: Callable[[Run], None] = ports.ignore_run_end,
        home: Callable[[str], None] = ports.ignore_home_tab,
        questions: Callable[[str, str, str, str], bool] = ports.answer_no_question,
    ) -> MessageIntake:
        """Return the object that takes in messages and events.

        `update_directory` gets Slack's events about people, groups and channels; `prompts` shows
        suggested prompts in a direct message, `ended` is called with each cancelled run, `home`
        with each person who opens the Home tab; `questions` answers questions about approvals.
        """
        places = self.forms().build_request_channel_checker()
        return MessageIntake(
            self.store,
            self.clock,
            self.tools,
            self.authority,
            self.identity.user,
            places=places,
            channels=ChannelChangeHandler(self.store, self.clock, self.policy, places),
            update_directory=update_directory,
            prompts=prompts,
            ended=self._wrap_ended_callback(ended),
            home=home,
            questions=questions,
            has_model=self.settings.has_model,
        )

    def _build_outcome_store(self) -> CallOutcomeStore:
        sources = self.build_policy_fact_sources()
        return CallOutcomeStore(sources, self.tools, self.signals, self.previews, self.key)

    def build_executor(self, pool: Executor, portal: Callable[[], BlockingPortal]) -> CallExecutor:
        """Return the executor of approved calls: `pool` runs sync tools, `portal` async ones."""
        return CallExecutor(
            self.build_policy_fact_sources(),
            self.authority,
            self.tools,
            self.key,
            elicitations=ElicitationBroker(
                self.store, self.clock, self.signals, self.settings.workers
            ),
            outcomes=self._build_outcome_store(),
            signals=self.signals,
            lease=self.settings.lease,
            pool=pool,
            portal=portal,
        )

    def build_worker(
        self,
        planner: ModelPlanner,
        executor: CallExecutor,
        thread: ports.RunThread,
        answer: Callable[[Run], ports.Answer],
        presence: ports.Presence,
    ) -> RunWorker:
        """Return the worker that advances runs; `answer` returns where a model writes its text."""
        presence = ports.BroadcastPresence(presence, self.signals.live)
        sources, tools = self.build_policy_fact_sources(), self.tools
        limits = UsageLimits(self.settings, self.clock)
        proposals = ProposalPreparer(
            sources, self.authority, tools, limits, self.key, self.previews
        )
        known, window = self.transcripts, self.settings.context_tokens
        threads = CompactingPlanner(self.store, self.clock, self.signals, planner, known, window)
        turns = ModelTurnTaker(
            self.signals,
            threads=threads,
            proposals=proposals,
            thread=thread,
            answer=answer,
            presence=presence,
        )
        entries = self.forms().build_form_reader()
        direct = DirectCallTurnTaker(
            self.signals, proposals=proposals, entries=entries, presence=presence
        )
        return RunWorker(
            self.store,
            self.clock,
            self.settings.lease,
            self.signals,
            turns=dict.fromkeys(RunSource, direct.take_turn)
            | dict.fromkeys(MODEL_DRIVEN_SOURCES, turns.take_turn),
            executor=executor,
            tools=tools,
            cards=MissingCardPoster(sources, self.authority),
            presence=presence,
        )

    def build_surfaces(
        self, keep: Callable[[Delivery], None], add_names: Callable[[str], str]
    ) -> tuple[NamedSurface, ...]:
        """Return the places beside Slack where people use the bot, such as the terminal.

        Raises SurfaceError.

        `keep` stores a delivery and wakes the loop; `add_names` adds people's names to the mentions
        in a text.
        """
        host = Host(
            self.settings,
            self.store,
            self.clock,
            self.tools,
            self.identity,
            self.signals,
            self.authority,
            self.build_permission_checker(),
            self.build_edit_handler(),
            keep,
            add_names,
            ProgramRequests(self.forms(), self.signals),
            self.build_passkey_manager(),
        )
        return create_surfaces(host)

    def build_restored_record_settler(
        self, ended: Callable[[Run], None] = ports.ignore_run_end
    ) -> RestoredRecordSettler:
        """Return the object that settles open work if the record was put back from a backup.

        `ended` is called with each run that ends by this, except those of sub-agents.
        """
        return RestoredRecordSettler(
            self.store,
            self.clock,
            self.tools,
            self.key,
            self._build_outcome_store(),
            self._wrap_ended_callback(ended),
        )

    def _build_policy_reloader(self) -> PolicyReloader:
        return PolicyReloader(
            self.settings.policy_path,
            self.policy,
            self.store,
            self.clock,
            lambda policy: list_template_problems(policy, self.tools),
            self.signals.tracer,
            self.signals.policy.notify,
        )

    def build_loop(
        self,
        intake: MessageIntake,
        workers: WorkerPool,
        look_ahead: Callable[[list[Delivery]], None],
        ended: Callable[[Run], None] = ports.ignore_run_end,
        others: OtherProcesses | None = None,
    ) -> MainLoop:
        """Return the main loop; `look_ahead` starts look-ups, `ended` gets each cancelled run.

        `others`: the other processes on this database; None if this process has it alone.
        """
        answers = AnswerHandler(self.store, self.authority)
        shared_parts = (self.store, self.clock, self.tools)
        claims = ProgramCallClaimManager(
            self.build_policy_fact_sources(),
            self.tools,
            self.signals,
            self._build_outcome_store(),
        )
        typed = NonSlackMessageIntake(
            self.store, self.clock, self.authority, self.settings.has_model, ended
        )
        actions = TickActions(
            handle_click=self.build_click_dispatcher(ended).handle_delivery,
            handle_first=(
                typed.handle_delivery,
                ReplyAnswerHandler(answers, self.identity.user).handle_message,
            ),
            handle_message=intake.handle_delivery,
            expire_calls=(
                CallExpirer(*shared_parts).expire_due_calls,
                claims.expire_lapsed_claims,
            ),
            send_reminders=(
                ReminderSender(*shared_parts, self.authority, self.policy).send_due_reminders,
                DelegateNotifier(*shared_parts, self.authority).notify_new_delegates,
            ),
            reload_policy=self._build_policy_reloader().reload_if_changed,
        )
        return MainLoop(
            self.store,
            self.clock,
            self.settings,
            self.signals,
            actions=actions,
            workers=workers,
            look_ahead=look_ahead,
            others=others,
        )
