"""Builds the core: the parts that decide on calls and run them, without Slack and the model.

For the composition root, the tests and the benchmarks only: each part is passed what it uses, and
none of them imports this file.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

from anyio.from_thread import BlockingPortal

from bot.agent.turn import ModelTurns
from bot.approvals.call_checks import Allowance
from bot.approvals.clicks import Clicks
from bot.approvals.deadlines import Expiry, Reminders
from bot.approvals.delegation import Handover
from bot.approvals.dialog_access import AllRows, DialogAccess
from bot.approvals.edits import Edits
from bot.approvals.facts import Sources
from bot.approvals.form_requests import Beginnings, FormParts, misfitting
from bot.approvals.grants import GrantList
from bot.approvals.permissions import Permissions
from bot.approvals.person_views import PersonViews
from bot.approvals.question_answers import PlainReplies, QuestionAnswers
from bot.approvals.replies import Replies
from bot.approvals.request_changes import PlanChanges, Requests
from bot.approvals.votes import Votes
from bot.cards.action_names import Dialog
from bot.clock import Clock
from bot.config.settings import Settings
from bot.config.startup import PolicyReload
from bot.identity import Identity
from bot.policy.authority import Authority, Directory
from bot.policy.evaluation import CurrentPolicy
from bot.runs import ports
from bot.runs.compaction import LongThreads
from bot.runs.direct_turns import DirectTurns
from bot.runs.executor import CallExecutor
from bot.runs.intake import Intake, TypedWords
from bot.runs.loop import Loop, TickActions
from bot.runs.ports import Answer, DirectoryMemory, Presence, Questions, Thread
from bot.runs.program_calls import ProgramCalls
from bot.runs.program_requests import ProgramRequests
from bot.runs.proposals import Proposals
from bot.runs.restoration import Restoration
from bot.runs.surfaces import Host, made
from bot.runs.turns import Turns
from bot.runs.worker import Worker
from bot.runs.worker_pool import OtherProcesses, WorkerPool
from bot.signals import Signals
from bot.tools import Registry
from bot.tools.preview import Previews
from bot.upkeep import DailyPurge, Upkeep
from storage.models import Delivery, Run
from storage.states import MODELLED, RunSource
from storage.store import Store
from storage.transcripts import Transcripts


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
    transcripts: Transcripts = field(default_factory=Transcripts)
    previews: Previews = field(default_factory=Previews)

    def over(self, directory: Directory) -> Core:
        """Return a copy with another directory, for threads that wait less long for look-ups."""
        authority = Authority(directory, self.identity.team, self.authority.stand_ins)
        return replace(self, directory=directory, authority=authority)

    def sources(self) -> Sources:
        """Return the policy with the directory, store and clock that it takes to evaluate it."""
        return Sources(self.policy, self.directory, self.store, self.clock)

    def limits(self) -> Allowance:
        """Return the limits on calls that the settings name."""
        return Allowance(self.settings, self.clock)

    def permissions(self) -> Permissions:
        """Return the checks of who may do what to a call."""
        return Permissions(self.store, self.clock, self.authority)

    def edits(self) -> Edits:
        """Return the object that checks and stores edits of a call's arguments."""
        return Edits(
            self.sources(),
            self.authority,
            self.tools,
            self.permissions(),
            self.key,
            previews=self.previews,
            wake=self.signals.work.give,
        )

    def clicks(self, ended: Callable[[Run], None] = ports.show_no_end) -> Clicks:
        """Return the handler of clicks and dialogs; `ended` is called with each cancelled run."""
        permissions, answers = self.permissions(), QuestionAnswers(self.store, self.authority)
        acts = {**answers.acts(), **self.desk().delegations().acts()}
        return Clicks(
            self.authority,
            Votes(self.store, self.clock, self.tools, permissions, self.policy),
            self.edits(),
            PlanChanges(self.store, self.tools, permissions, self.settings.max_rounds),
            Requests(self.store, permissions, self.tools, self.key, self._over(ended)),
            AllRows(self.store, DialogAccess(self.store, self.clock, permissions)),
            self.grants(),
            Replies(self.store),
            acts | {Dialog.REQUEST: Beginnings(self.forms()).begin},
        )

    def _over(self, ended: Callable[[Run], None]) -> Callable[[Run], None]:
        return ports.broadcast_end(ended, self.signals.live)

    def forms(self) -> FormParts:
        """Return the parts for requests made with a form, without the agent."""
        wake, me = self.signals.work.give, self.identity
        return FormParts(self.sources(), self.authority, self.tools, me, self.previews, wake)

    def grants(self) -> GrantList:
        """Return the object that lists and ends grants (saved approvals)."""
        return GrantList(self.store, self.clock, self.tools, self.identity.team)

    def desk(self) -> PersonViews:
        """Return the object that builds one person's lists, Home tab and delegations."""
        return PersonViews(
            self.identity, self.authority, self.permissions(), self.policy, self.grants()
        )

    def intake(
        self,
        known: DirectoryMemory,
        prompts: Callable[[str], None],
        ended: Callable[[Run], None] = ports.show_no_end,
        home: Callable[[str], None] = ports.publish_no_home,
        questions: Questions = ports.answer_no_question,
    ) -> Intake:
        """Return the object that takes in messages and events.

        `prompts` shows suggested prompts in a direct message, `ended` is called with each cancelled
        run, `home` with each person who opens the Home tab; `questions` answers questions about
        approvals.
        """
        return Intake(
            self.store,
            self.clock,
            self.tools,
            self.authority,
            self.identity.user,
            self.policy,
            known,
            prompts,
            self._over(ended),
            home,
            questions,
            self.settings.has_model,
        )

    def executor(self, pool: Executor, portal: Callable[[], BlockingPortal]) -> CallExecutor:
        """Return the executor of approved calls: `pool` runs sync tools, `portal` async ones."""
        return CallExecutor(
            self.sources(),
            self.authority,
            self.tools,
            self.key,
            previews=self.previews,
            signals=self.signals,
            lease=self.settings.lease,
            workers=self.settings.workers,
            pool=pool,
            portal=portal,
        )

    def worker(
        self,
        planner: ModelTurns,
        executor: CallExecutor,
        thread: Thread,
        answer: Callable[[Run], Answer],
        presence: Presence,
    ) -> Worker:
        """Return the worker that advances runs; `answer` returns where a turn's text is written."""
        presence = ports.BroadcastPresence(presence, self.signals.live)
        limits, sources, tools = self.limits(), self.sources(), self.tools
        proposals = Proposals(sources, self.authority, tools, limits, self.key, self.previews)
        known, window = self.transcripts, self.settings.context_tokens
        threads = LongThreads(self.store, self.clock, self.signals, planner, known, window)
        rest = (self.store, self.clock, tools, self.signals)
        turns = Turns(
            *rest,
            threads=threads,
            proposals=proposals,
            limits=limits,
            thread=thread,
            answer=answer,
            presence=presence,
        )
        entries = self.forms().entries()
        direct = DirectTurns(*rest, proposals=proposals, entries=entries, presence=presence)
        return Worker(
            self.store,
            self.clock,
            self.settings.lease,
            self.signals,
            turns=dict.fromkeys(RunSource, direct.take) | dict.fromkeys(MODELLED, turns.take),
            executor=executor,
            tools=tools,
            authority=self.authority,
            presence=presence,
        )

    def upkeep(self, keep: Callable[[Delivery], None], named: Callable[[str], str]) -> Upkeep:
        """Return the background work: surfaces beside Slack and the purge; raises SurfacesError.

        `keep` stores a delivery and wakes the loop; `named` adds people's names to the mentions in
        a text.
        """
        host = Host(
            self.settings,
            self.store,
            self.clock,
            self.tools,
            self.identity,
            self.signals,
            self.authority,
            self.permissions(),
            self.edits(),
            keep,
            named,
            ProgramRequests(self.forms(), self.signals),
        )
        return Upkeep(made(host), DailyPurge(self.store, self.clock, self.settings.keep_days))

    def restored(self, ended: Callable[[Run], None] = ports.show_no_end) -> Restoration:
        """Return the object that settles open work if the record was put back from a backup.

        `ended` is called with each run that ends by this, except those of sub-agents.
        """
        return Restoration(self.store, self.clock, self.tools, self.key, self._over(ended))

    def loop(
        self,
        intake: Intake,
        workers: WorkerPool,
        look_ahead: Callable[[list[Delivery]], None],
        ended: Callable[[Run], None] = ports.show_no_end,
        others: OtherProcesses | None = None,
    ) -> Loop:
        """Return the loop; `look_ahead` starts looking people up, `ended` gets each cancelled run.

        `others`: the other processes on this database; None if this process has it alone.
        """
        acts = TickActions(
            intake=intake,
            typed=TypedWords(
                self.store, self.clock, self.authority, self.settings.has_model, ended
            ),
            replies=PlainReplies(QuestionAnswers(self.store, self.authority), self.identity.user),
            clicks=self.clicks(ended),
            expiry=Expiry(self.store, self.clock, self.tools),
            reminders=Reminders(self.store, self.clock, self.tools, self.authority),
            handover=Handover(self.store, self.clock, self.tools, self.authority),
            handovers=ProgramCalls(self.store, self.clock, self.signals, self.tools),
            reload=PolicyReload(
                self.settings.policy_path,
                self.policy,
                self.store,
                self.clock,
                lambda policy: misfitting(policy, self.tools),
                self.signals.tracer,
                self.signals.policy.give,
            ),
        )
        return Loop(
            self.store,
            self.clock,
            self.settings,
            self.signals,
            acts=acts,
            workers=workers,
            look_ahead=look_ahead,
            others=others,
        )
