"""HTTP client with which any program asks people before it acts; see docs/programs.md.

A request whose connection fails is sent again; nothing is asked or handed out twice because of
that.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from countersign import context, wire
from countersign.receipts import ReceiptError, ReceiptVerifier, read_public_keys, verify_receipt
from countersign.request import (
    CRYPTOGRAPHY_MISSING_ERROR,
    AlreadyTaken,
    CountersignError,
    Expired,
    Handout,
    NotAllowed,
    NotVerified,
    OwnAction,
    Request,
    RequestStatus,
    TooManyRequests,
    Unreachable,
    find_request_error,
    parse_handout,
    parse_request,
)
from countersign.schema import replace_unstorable_characters

MAX_LOOK_SECONDS = 60.0
LOOK_SECONDS = 20.0  # one poll of a wait; a connection that died silently is noticed after it
POLL_INTERVAL_SECONDS = 1.0  # between two polls that were answered at once
SILENCE_TIMEOUT_SECONDS = 120.0  # without an answer, after which an unlimited wait gives up
REQUESTS_PATH = "/v1/requests"
QUESTIONS_PATH = "/v1/questions"
HOOK_PATH = "/v1/hooks/claude-code"
UNKNOWN_ANSWER_ERROR = (
    "Countersign sent something that this client does not understand; is Countersign newer?"
)
Seconds = float
T = TypeVar("T")
IS_DECIDED, HAS_ENDED = attrgetter("is_decided"), attrgetter("has_ended")


class WaitAbandonedError(CountersignError):
    """Raised by a wait that its caller has given up; the wait itself does not end the request."""


class Countersign:
    """A client for one Countersign address and one key; safe to use from any thread."""

    def __init__(
        self,
        url: str = "",
        key: str = "",
        *,
        verify: str | os.PathLike[str] = "",
        approvers: int = 1,
        passkeys: bool = False,
    ) -> None:
        """Take `url` and `key`, by default from COUNTERSIGN_URL and COUNTERSIGN_API_KEY.

        `url` may be unix:PATH, the bot's own socket, where the bot's own account needs no key.
        `verify`: a file with the installation's public keys, by default the one in
        COUNTERSIGN_VERIFY: a claimed call then runs only if its receipt is valid, with at least so
        many `approvers`; with `passkeys`, only those count who have signed with one. Raises
        NotAllowed if `url` or `key` is missing or malformed, or `verify` is missing or has no keys.
        """
        self._check = None
        if verify := verify or os.environ.get("COUNTERSIGN_VERIFY", ""):
            try:
                keys = read_public_keys(Path(verify).read_text("utf-8-sig"))
            except ModuleNotFoundError as error:
                raise NotAllowed(CRYPTOGRAPHY_MISSING_ERROR) from error
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or error
                raise NotAllowed(f"{verify} gives no keys to verify receipts: {why}") from error
            self._check = ReceiptVerifier(keys, approvers, passkeys)
        elif approvers != 1 or passkeys:
            raise NotAllowed("The receipt shows who approved: also give `verify`.")
        environ = os.environ
        url = url or environ.get("COUNTERSIGN_URL", "")
        default_key = (
            "" if url.startswith(wire.UNIX_SCHEME) else environ.get("COUNTERSIGN_API_KEY", "")
        )
        self._wire = wire.ApiTransport(url, key or default_key)

    @classmethod
    def beside(cls, record: str | os.PathLike[str] = "") -> Countersign:
        """Return a client for the bot on this machine, at the Unix socket beside its database.

        `record`: the bot's SQLite file, by default the one in DATABASE_URL, else countersign.db in
        the working directory. This process has to run under the bot's account; it needs no key, and
        each request has to name its requester.
        """
        return cls(wire.build_bot_socket_address(record))

    def request(
        self,
        what: str | OwnAction,
        arguments: Mapping[str, Any],
        *,
        deadline: Seconds | None = None,
        **circumstances: str,
    ) -> Request:
        """Ask people to approve a call, and return once the request is stored, still undecided.

        `what`: the name of one of Countersign's own tools, which Countersign then runs, or an
        action that this program runs itself. `deadline`: seconds that people have to decide; a
        shorter deadline of the policy wins. `circumstances`: `run`, `requester`, `channel` and
        `reason` as for `asking`, and `call`, the run's own name for this call.

        Raises NotAllowed, Unreachable, and ValueError or TypeError for arguments that are not JSON.
        """
        return self._post_call(what, arguments, deadline, circumstances)

    def open_request(
        self, what: str | OwnAction, arguments: Mapping[str, Any], **circumstances: str
    ) -> Request:
        """Ask as `request` does, but make a new request if the earlier one of the run has ended."""
        return self._post_call(what, arguments, None, circumstances, while_open=True)

    def _post_call(
        self,
        what: str | OwnAction,
        arguments: Mapping[str, Any],
        deadline: Seconds | None,
        circumstances: Mapping[str, str],
        *,
        while_open: bool = False,
    ) -> Request:
        around = replace(context.CURRENT_CIRCUMSTANCES.get(), **circumstances)
        body: dict[str, Any] = {"arguments": dict(arguments)}
        if isinstance(what, OwnAction):
            body["action"], named = what.to_json(), f"own {what.name}"
        else:
            body["tool"] = named = what
        if around.reason:
            body["reason"] = around.reason
        if deadline is not None:
            body["deadline_seconds"] = max(1, round(deadline))
        named += f" {around.call}" if around.call else ""
        return self._post(REQUESTS_PATH, body, around, named, arguments, while_open=while_open)

    def _post(
        self,
        path: str,
        body: dict[str, Any],
        around: context.RequestCircumstances,
        named: str,
        asked: Mapping[str, Any],
        *,
        while_open: bool,
    ) -> Request:
        """Post a call or question; in one run, the same `named` and `asked` make one request."""
        origin = {"requester": around.requester, "channel": around.channel}
        body |= {name: text for name, text in origin.items() if text}  # else the key's defaults
        if while_open:
            body["while_open"] = True
        key = context.build_idempotency_key(around.run, named, asked)
        return _parse_answer(parse_request, self._wire.post(path, body, key=key))

    def get_request(self, request_id: str, wait: Seconds = 0.0) -> Request:
        """Return a request's current state, after waiting up to `wait` seconds (60 at most).

        It waits for a decision, and then for the end of a call that has begun or that Countersign
        runs.
        """
        return self._look(request_id, wait)

    def wait(
        self,
        request_id: str,
        seconds: Seconds | None = None,
        *,
        given_up: threading.Event | None = None,
    ) -> Request:
        """Return the request once it is decided, or in its current state after `seconds`.

        `seconds` None: wait as long as it takes. Once `given_up` is set, raises
        WaitAbandonedError within a minute.
        """
        return self._wait_until(request_id, IS_DECIDED, seconds, given_up)

    def ended(self, request_id: str, seconds: Seconds | None = None) -> Request:
        """Return the request once it has ended, or in its current state after `seconds`."""
        return self._wait_until(request_id, HAS_ENDED, seconds)

    def wait_while_running(self, request_id: str) -> Request:
        """Return the request as soon as its status is not RUNNING; wait without a time limit."""
        return self._wait_until(request_id, lambda found: found.status is not RequestStatus.RUNNING)

    def claim(
        self, request_id: str, claimant: str = "", *, patience: Seconds = wire.RETRY_TIMEOUT_SECONDS
    ) -> Handout:
        """Claim an approved call to run it now, once, with the arguments that were approved.

        `claimant`: a random text of 16 characters or more, new for each attempt; a second claim
        with the same text returns the same handout and renews the lease. Raises AlreadyTaken, the
        error that says why the call is not approved (any more), NotAllowed and Unreachable.
        """
        body = {"claimant": claimant or generate_claimant_id()}
        try:
            answer = self._post_act(request_id, "claim", body, patience)
        except NotAllowed as refusal:
            request = self.get_request(request_id)
            trouble = find_request_error(request) or AlreadyTaken(
                f"It is not handed out: {refusal} What was handed out once is not run again.",
                request,
            )
            raise trouble from refusal
        return _parse_answer(parse_handout, answer)

    def claim_verified(self, request_id: str, claimant: str, tool: str = "") -> Handout:
        """Claim a call as `claim` does, and check its receipt if this client verifies receipts.

        `tool`: the name of the tool or action that was asked for. Raises NotVerified, after it was
        reported that the call did not run, and what `claim` raises.
        """
        handout = self.claim(request_id, claimant)
        if self._check is None:
            return handout
        try:
            self._check.check_claim(request_id, tool, handout)
        except ReceiptError as error:
            why = f"Not run: its receipt is not valid. {error}"
            self.report(request_id, claimant, succeeded=False, result=why)
            raise NotVerified(why) from error
        return handout

    @property
    def verifies_receipts(self) -> bool:
        """Whether only what has a valid receipt may run."""
        return self._check is not None

    def verify_approval(self, request_id: str, tool: str, arguments: Mapping[str, Any]) -> None:
        """Check the receipt of a call that Countersign has claimed for this program.

        Raises NotVerified if it does not approve this tool with these arguments, and Unreachable.
        """
        path = f"{REQUESTS_PATH}/{quote(request_id, safe='')}/receipt"
        answer = self._wire.get(path, waits=0, patience=wire.RETRY_TIMEOUT_SECONDS)
        decision = _parse_answer(lambda body: dict(body["decision"]), answer)
        if self._check is None:
            return
        try:
            receipt = verify_receipt(json.dumps(decision), self._check.keys)
            revision: Any = receipt.content.get("revision")
            handout = Handout(dict(arguments), revision, "", 0.0, decision)
            self._check.check_claim(request_id, tool, handout)
        except ReceiptError as error:
            raise NotVerified(f"Not run: its receipt is not valid. {error}") from error

    def report(
        self, request_id: str, claimant: str, *, succeeded: bool | None, result: Any
    ) -> Request:
        """Report how a claimed call went; `result` is JSON of at most 100 kB.

        Characters in it that no database stores (U+0000, halves of characters) are replaced.

        `succeeded`: None if this program has passed the work on and cannot say how it goes; it may
        report that later. Raises NotAllowed if this claimant has not claimed the call or a
        different outcome was reported before, and Unreachable.
        """
        body = {
            "claimant": claimant,
            "succeeded": succeeded,
            "result": replace_unstorable_characters(result),
        }
        return _parse_answer(parse_request, self._post_act(request_id, "outcome", body))

    def cancel(self, request_id: str, *, patience: Seconds = wire.RETRY_TIMEOUT_SECONDS) -> Request:
        """Cancel a request; raises NotAllowed if it has ended or was handed out."""
        return _parse_answer(parse_request, self._post_act(request_id, "cancel", {}, patience))

    def _post_act(
        self,
        request_id: str,
        act: str,
        body: Mapping[str, Any],
        patience: Seconds = wire.RETRY_TIMEOUT_SECONDS,
    ) -> Any:
        path = f"{REQUESTS_PATH}/{quote(request_id, safe='')}/{act}"
        return self._wire.post(path, body, patience=patience)

    def cancel_if_possible(self, request_id: str) -> Request:
        """Cancel a request if that is still possible, and return its state."""
        try:
            return self.cancel(request_id)
        except NotAllowed:
            return self.get_request(request_id)

    def open_question(self, question: str | Mapping[str, Any], **circumstances: str) -> Request:
        """Ask a person a question, and return once it is stored.

        If the same question of the same run has ended, a new one is asked.
        """
        return self._post_question(question, circumstances, while_open=True)

    def _post_question(
        self,
        question: str | Mapping[str, Any],
        circumstances: Mapping[str, str],
        *,
        while_open: bool = False,
    ) -> Request:
        around = replace(context.CURRENT_CIRCUMSTANCES.get(), **circumstances)
        asked = {"question": question} if isinstance(question, str) else dict(question)
        body = {"question": asked}
        return self._post(QUESTIONS_PATH, body, around, "a question", asked, while_open=while_open)

    def send_hook_input(
        self, hook_input: Mapping[str, Any], *, look: Seconds = MAX_LOOK_SECONDS, **terms: str
    ) -> dict[str, Any]:
        """Send Countersign the input of a Claude Code hook, and return the answer for Claude Code.

        If people have not decided after `look` seconds, the answer has the request's `id`, `link`
        and `status` instead; send the same input again then. `terms`: query parameters of the
        hook's address. Raises NotAllowed and Unreachable.
        """
        path = f"{HOOK_PATH}?{urlencode(terms)}" if terms else HOOK_PATH
        answer = self._wire.post(path, hook_input, later=look)
        if not isinstance(answer, dict):
            raise Unreachable(UNKNOWN_ANSWER_ERROR)
        return answer

    def ask_person(
        self,
        question: str | Mapping[str, Any],
        seconds: Seconds | None = None,
        **circumstances: str,
    ) -> Any:
        """Ask a person for information and return their answer, which approves nothing.

        `question`: words, or the arguments of the tool ask_person. Waits `seconds`; None: as long
        as it takes. Raises Expired if nobody answers in time, Rejected if the person cannot answer,
        NotAllowed and Unreachable.
        """
        request = self.ended(self._post_question(question, circumstances).id, seconds)
        if not request.is_decided:
            raise Expired("Nobody has answered yet.", request)
        if trouble := find_request_error(request):
            raise trouble
        return request.result

    def _look(
        self, request_id: str, wait: Seconds, patience: Seconds | None = wire.RETRY_TIMEOUT_SECONDS
    ) -> Request:
        wait = min(max(wait, 0.0), MAX_LOOK_SECONDS)
        path = f"{REQUESTS_PATH}/{quote(request_id, safe='')}?wait={int(wait)}"
        answer = self._wire.get(path, waits=wait, patience=patience)
        return _parse_answer(parse_request, answer)

    def _wait_until(
        self,
        request_id: str,
        enough: Callable[[Request], bool],
        seconds: Seconds | None = None,
        given_up: threading.Event | None = None,
    ) -> Request:
        stop, heard_at = given_up or threading.Event(), time.monotonic()
        until = float("inf") if seconds is None else heard_at + seconds
        request: Request | None = None
        longest = LOOK_SECONDS
        while True:
            asked_at = time.monotonic()
            is_first = request is None  # then no wait: the API would wait for a running call too
            wait = 0.0 if is_first else min(longest, until - asked_at)
            try:
                request = self._look(request_id, wait, None)
                heard_at = time.monotonic()
                if is_first and not enough(request):
                    continue
            except TooManyRequests:  # too many requests wait already, so poll without waiting
                longest = 0.0
            except Unreachable:  # the request stays open, so try again while there is time
                if time.monotonic() >= (
                    heard_at + SILENCE_TIMEOUT_SECONDS if seconds is None else until
                ):
                    raise
            if request is not None and enough(request):
                return request
            pause = asked_at + POLL_INTERVAL_SECONDS - time.monotonic()  # the answer came at once
            if pause > 0:
                stop.wait(max(min(pause, until - time.monotonic()), 0.0))
            if stop.is_set():
                raise WaitAbandonedError("Nobody is waiting for it any more.")
            if request is not None and time.monotonic() >= until:
                return request


def generate_claimant_id() -> str:
    """Return a random identifier for one attempt to run an approved call."""
    return uuid.uuid4().hex


def _parse_answer(parse: Callable[[Mapping[str, Any]], T], answer: Any) -> T:
    try:
        return parse(answer)
    except (KeyError, TypeError, ValueError):
        raise Unreachable(UNKNOWN_ANSWER_ERROR) from None
