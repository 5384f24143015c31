"""One attempt to run a call that people approve first: ask, wait, claim and report."""

from __future__ import annotations

import contextlib
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, Generator, Iterator
from concurrent.futures import Future
from contextlib import AsyncContextDecorator, ContextDecorator, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from countersign import context
from countersign.client import Countersign, Seconds, WaitAbandonedError, generate_claimant_id
from countersign.request import (
    AlreadyTaken,
    CountersignError,
    Expired,
    OwnAction,
    Request,
    RequestStatus,
    find_request_error,
)
from countersign.schema import convert_result_to_json, format_value

log = logging.getLogger("countersign.client")
RENEWALS_PER_LEASE = 3
CANCEL_TIMEOUT_SECONDS = 5.0  # to cancel a request that nobody waits for any more
MAX_CLAIM_POLLS = 60  # while another process claims the same call
CLAIM_POLL_SECONDS = 1.0
# of results for which the caller, or another thread, has yet to do the work
RUNS_LATER_TYPES = (
    Generator,
    AsyncGenerator,
    Future,
    ContextDecorator,  # what a @contextmanager returns
    AsyncContextDecorator,
    map,
    filter,
)


@dataclass(frozen=True, slots=True)
class GatedCallOptions:
    """By which client, for how long, for whom and why people are asked about a function's calls."""

    client: Countersign | None
    wait: Seconds | None
    circumstances: context.RequestCircumstances
    tells_why: bool  # if nothing ran, return a sentence that says why instead of raising

    def merge_circumstances(self) -> dict[str, str]:
        """Return who asks, where and why; values of `asking` win over those of the decorator."""
        both = (
            *asdict(self.circumstances).items(),
            *asdict(context.CURRENT_CIRCUMSTANCES.get()).items(),
        )
        return {name: text for name, text in both if text}


class ClaimedGatedCall:
    """An approved call that this process has claimed and may run once."""

    def __init__(self, client: Countersign, request: Request, tool: str) -> None:
        """Claim an approved request for this process; raises CountersignError.

        `tool`: the name of the action that was asked for.
        """
        self.claimant = generate_claimant_id()
        handout = client.claim_verified(request.id, self.claimant, tool)
        self.request = replace(request, arguments=handout.arguments)  # as approved
        self._client, self._lease = client, handout.lease

    @property
    def claim_text(self) -> str:
        """The text with which another process can report how the call went: ID:CLAIMANT."""
        return f"{self.request.id}:{self.claimant}"

    @contextmanager
    def renew_lease_during_block(self) -> Iterator[None]:
        """Renew the lease on a thread while the block runs, however long it takes."""
        done = threading.Event()
        keeper = threading.Thread(
            target=self._renew_lease_until, args=(done,), name="lease", daemon=True
        )
        keeper.start()
        try:
            yield
        finally:
            done.set()

    def _renew_lease_until(self, done: threading.Event) -> None:
        while not done.wait(self._lease / RENEWALS_PER_LEASE):
            with contextlib.suppress(CountersignError):  # reporting will show a lost lease
                self._client.claim(self.request.id, self.claimant, patience=self._lease / 2)

    def report_outcome(self, *, succeeded: bool, result: Any) -> None:
        """Report how the call went; a report that fails is logged, and people are asked instead.

        `result`: any value, or the exception with which the call ended. If it still has to be run
        or read (a coroutine, a generator, a future), the outcome is reported as unknown.
        """
        went: bool | None = succeeded
        if isinstance(result, Exception):
            result = f"{type(result).__name__}: {format_value(result)}"
        elif inspect.isawaitable(result) or isinstance(result, RUNS_LATER_TYPES):
            went, result = None, f"It returned a {type(result).__name__}, which runs later."
        json_result = convert_result_to_json(result)
        try:
            self._client.report(self.request.id, self.claimant, succeeded=went, result=json_result)
        except CountersignError as error:
            log.warning("request %s was run, but could not be reported: %s", self.request.id, error)


@dataclass(eq=False)
class GatedCall:
    """One call of a decorated function, which asks people and then claims the call."""

    _action: OwnAction
    _arguments: dict[str, Any]
    _terms: GatedCallOptions
    earlier_result: Any = None  # the result of the same call earlier in this run

    def __post_init__(self) -> None:
        self._given_up = threading.Event()
        self._circumstances = self._terms.merge_circumstances()
        self._request: Request | None = None
        self._claimed: ClaimedGatedCall | None = None

    @cached_property
    def _client(self) -> Countersign:
        return self._terms.client or Countersign()

    def stop_waiting(self) -> None:
        """Make `claim_when_approved` stop waiting, on whatever thread it waits; return at once."""
        self._given_up.set()
        if self._request is not None:
            # no daemon: the process often ends now, and somebody could still approve the request
            threading.Thread(target=self._cancel_request, name="taken back").start()

    def send_request(self) -> Request:
        """Make the request, or find the one made before in the same run; return without waiting."""
        around, suspension = self._circumstances, context.CURRENT_SUSPENSION.get()
        if suspension is not None:
            around = {**around, "run": suspension.run, "call": suspension.call}
        return self._client.request(
            self._action, self._arguments, deadline=self._terms.wait, **around
        )

    def claim_when_approved(self) -> ClaimedGatedCall | None:
        """Ask, wait and claim the call; return None if it was done before in the same run.

        `earlier_result` then has the result. Raises CountersignError if the call must not run.
        """
        suspension = context.CURRENT_SUSPENSION.get()
        if suspension is not None:
            return self._claim_or_suspend(suspension)
        client, wait = self._client, self._terms.wait
        self._request = request = self.send_request()
        try:
            request = client.wait(request.id, wait, given_up=self._given_up)
        except BaseException:  # also an end of the process, or a time limit of its own
            self._cancel_request()
            raise
        if not request.is_decided:
            request = client.cancel_if_possible(request.id)
            if request.status is RequestStatus.CANCELLED:
                raise Expired("Nobody approved it in time.", request)
        return self._claim_approved(request)

    def _claim_or_suspend(self, suspension: context.CallSuspension) -> ClaimedGatedCall | None:
        """Claim an approved call or suspend an undecided one; wait for one that runs elsewhere."""
        request = self.send_request()  # not in self._request: giving up must not cancel it
        tries = MAX_CLAIM_POLLS
        while True:
            if not request.is_decided:
                suspension.suspend(request)
                request = self._client.get_request(request.id)
            elif request.status is RequestStatus.RUNNING:
                log.warning(
                    "request %s was already handed out, and no outcome was reported: waiting"
                    " until one is, or its lease ends",
                    request.id,
                )
                request = self._client.wait_while_running(request.id)
            else:
                try:
                    return self._claim_approved(request)
                except AlreadyTaken as taken:
                    tries -= 1
                    if taken.request is None or not tries:
                        raise
                    request = taken.request  # another process was faster, or people are asked again
                    if request.status is RequestStatus.APPROVED:  # their claim is being checked
                        self._given_up.wait(CLAIM_POLL_SECONDS)

    def _claim_approved(self, request: Request) -> ClaimedGatedCall | None:
        """Claim an approved call; if it was done before, set `earlier_result` and return None."""
        if request.status is RequestStatus.SUCCEEDED:
            self.earlier_result = request.result
            return None
        if trouble := find_request_error(request):
            raise trouble
        if self._given_up.is_set():
            raise WaitAbandonedError("Nobody is waiting for it any more.", request)
        self._claimed = ClaimedGatedCall(self._client, request, self._action.name)
        if self._given_up.is_set():  # given up during the claim
            self._cancel_request()
            raise WaitAbandonedError("Nobody is waiting for it any more.", request)
        return self._claimed

    def _cancel_request(self) -> None:
        """Cancel the request, unless it belongs to a run, where a later process may ask for it.

        If the call was claimed at that very moment, it is reported as not run.
        """
        if self._claimed is not None:
            self._claimed.report_outcome(succeeded=False, result="It was not run after all.")
        elif self._request is not None and not self._circumstances.get("run"):
            cancel_unwaited_request(self._client, self._request.id)


def cancel_unwaited_request(client: Countersign, request_id: str) -> None:
    """Cancel a request that nobody waits for any more, if that is possible within five seconds."""
    with contextlib.suppress(CountersignError):
        client.cancel(request_id, patience=CANCEL_TIMEOUT_SECONDS)
