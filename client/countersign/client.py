"""Asks people by HTTP before something is done, from any program: the client of docs/programs.md.

A lost line is tried again, and nothing is asked or handed out twice for that.
"""

from __future__ import annotations

import json
import logging
import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from http import HTTPStatus
from http.client import HTTPException
from operator import attrgetter
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, build_opener
from urllib.request import Request as HttpRequest

from countersign.context import Circumstances, current, key_of
from countersign.request import (
    AlreadyTaken,
    CountersignError,
    Expired,
    Handout,
    NoAnswer,
    NotAllowed,
    OwnAction,
    Request,
    RequestStatus,
    TooManyAtOnce,
    Unreachable,
    handout_of,
    request_of,
    trouble_of,
)
from countersign.version import VERSION

# The line to Countersign: HTTP by the standard library, tried again while that can help.

KEY_PREFIX = "csk_"
PATIENCE = 60.0  # seconds that a line is tried which is lost
ANSWER = 20.0  # seconds that an answer may take beyond what it was asked to wait
PAUSES = (0.25, 0.5, 1.0)  # seconds between tries, the last for ever: nobody notices a restart
_HERE = ("127.0.0.1", "localhost", "::1")
log = logging.getLogger("countersign.client")


class Wire:
    """For one address and one key; any thread may use it."""

    def __init__(self, url: str, key: str) -> None:
        """Raises NotAllowed where one of them is missing or cannot be right."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise NotAllowed("Set COUNTERSIGN_URL to where Countersign is, https://…")
        if not key.startswith(KEY_PREFIX):  # some other secret must not travel
            raise NotAllowed(
                f"Set COUNTERSIGN_API_KEY to the key, {KEY_PREFIX}…, that"
                " `countersign key new` has shown."
            )
        self.url = url.rstrip("/")
        self._key = key
        self._opener = _opener(parts.hostname)
        self._is_lost = False  # the last that was said had no answer

    def get(self, path: str, *, waits: float = 0.0, patience: float | None = PATIENCE) -> Any:
        """Return what is there, as JSON; `waits`: how many seconds the answer was asked to wait.

        Raises NotAllowed, and Unreachable after `patience` seconds of no answer; where `patience`
        is None, it is tried once, and NoAnswer and TooManyAtOnce say that it may be tried again.
        """
        return self._say("GET", path, None, {}, waits, patience)

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        key: str = "",
        later: float | None = None,
        patience: float = PATIENCE,
    ) -> Any:
        """Say something, and return the answer; raises as `get` does, and ValueError for no JSON.

        `key`: what was said with the same one before is answered as it was, and does nothing more.
        `later`: after so many seconds it may be answered that there is no answer yet.
        """
        said = json.dumps(body, allow_nan=False).encode()
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = key
        if later is not None:
            headers["Prefer"] = f"respond-async, wait={int(later)}"
        return self._say("POST", path, said, headers, later or 0.0, patience)

    def _say(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: dict[str, str],
        waits: float,
        patience: float | None,
    ) -> Any:
        url = self.url + path  # http or https, as was checked
        request = HttpRequest(url, body, headers, method=method)  # noqa: S310 # see above
        request.add_header("Authorization", f"Bearer {self._key}")
        request.add_header("Accept", "application/json, application/problem+json")
        request.add_header("User-Agent", f"countersign-client/{VERSION}")
        until = time.monotonic() + (0.0 if patience is None else waits + patience)
        for pause in _pauses():
            again = pause
            error: CountersignError
            try:
                with self._opener.open(request, timeout=waits + ANSWER) as answer:
                    said = answer.read()
                self._found()
                return _read(said)
            except HTTPError as refusal:
                with refusal:
                    asked_to = _retry_after(refusal)
                    error = _refusal(refusal)
                again = max(asked_to or 0.0, pause)
                if not isinstance(error, NoAnswer | TooManyAtOnce) and asked_to is None:
                    self._found()
                    raise error from None
            except (OSError, HTTPException) as lost:
                why = lost.reason if isinstance(lost, URLError) else lost
                error = NoAnswer(f"Countersign does not answer at {self.url} ({why}).")
            if isinstance(error, NoAnswer):
                self._lose(error)
            if time.monotonic() + again >= until:
                raise error from None
            time.sleep(again)
        raise AssertionError("the pauses never end")

    def _lose(self, error: NoAnswer) -> None:
        """Say once that there is no answer: whoever waits for one may wait long."""
        if not self._is_lost:
            self._is_lost = True
            log.warning("%s It is tried again.", error)

    def _found(self) -> None:
        if self._is_lost:
            self._is_lost = False
            log.warning("Countersign answers again at %s.", self.url)


class _NoRedirects(HTTPRedirectHandler):
    """The key goes to the address that was given, and to no other."""

    def redirect_request(self, *_: Any) -> None:
        """Follow nothing."""


def _opener(host: str) -> OpenerDirector:
    """What opens addresses: past every proxy where the address is this machine's."""
    return build_opener(_NoRedirects, ProxyHandler({} if host in _HERE else None))


def _pauses() -> Iterator[float]:
    yield from (each * random.uniform(0.75, 1.25) for each in PAUSES)  # noqa: S311 # no secret
    while True:
        yield PAUSES[-1] * random.uniform(0.75, 1.25)  # noqa: S311 # it spreads, it hides nothing


def _read(answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except ValueError:
        raise Unreachable("What answers there is not Countersign: it says no JSON.") from None


def _retry_after(refusal: HTTPError) -> float | None:
    """The seconds after which to try again, if it says so."""
    said = refusal.headers.get("Retry-After", "")
    return float(said) if said.isdecimal() else None


def _refusal(refusal: HTTPError) -> CountersignError:
    """What an answer that is no success says, as a sentence."""
    if refusal.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return NoAnswer(f"Countersign cannot answer now (HTTP {refusal.code}).")
    if refusal.code < HTTPStatus.BAD_REQUEST:
        there = refusal.headers.get("Location", "elsewhere")
        return Unreachable(f"That address leads on to {there}; give that one.")
    try:
        said = json.loads(refusal.read())
        sentence = str(said.get("detail") or said["title"])
        fields = [f"{each['field']}: {each['message']}" for each in said.get("errors") or ()]
    except (ValueError, OSError, HTTPException, AttributeError, KeyError, TypeError):
        return Unreachable(f"What answers there is not Countersign (HTTP {refusal.code}).")
    sentence = "; ".join([sentence, *(each for each in fields if each not in sentence)])
    if refusal.code == HTTPStatus.TOO_MANY_REQUESTS:
        return TooManyAtOnce(sentence)
    return NotAllowed(sentence)


LONGEST_LOOK = 60.0  # seconds that one look may wait
LOOK = 20.0  # seconds that one of many looks waits: a line that died silently is noticed after it
GLANCE = 1.0  # seconds between two looks that were answered at once
GONE = 120.0  # seconds without an answer after which who waits without an end gives up
REQUESTS, QUESTIONS, HOOK = "/v1/requests", "/v1/questions", "/v1/hooks/claude-code"
Seconds = float
IS_DECIDED, HAS_ENDED = attrgetter("is_decided"), attrgetter("has_ended")


class GivenUp(CountersignError):
    """Whoever waited does so no more; the request stands as it did."""


class Countersign:
    """One address and one key; any thread may use it."""

    def __init__(self, url: str = "", key: str = "") -> None:
        """`url` and `key` are by default those in COUNTERSIGN_URL and COUNTERSIGN_API_KEY.

        Raises NotAllowed where one of them is missing, or cannot be right.
        """
        environ = os.environ
        self._wire = Wire(
            url or environ.get("COUNTERSIGN_URL", ""), key or environ.get("COUNTERSIGN_API_KEY", "")
        )

    def request(
        self,
        what: str | OwnAction,
        arguments: Mapping[str, Any],
        *,
        deadline: Seconds | None = None,
        **circumstances: str,
    ) -> Request:
        """Put a call before people, and return once it is stored; nothing is decided by then.

        `what`: a tool of Countersign's own, by name, which it then runs; or what this program does
        itself. `deadline`: seconds that people have, where policy gives no fewer. Further: `run`,
        `requester`, `channel` and `reason`, as `asking` has them, and `call`, as a run names it.

        Raises NotAllowed, Unreachable, and ValueError for arguments that are no JSON.
        """
        return self._put(what, arguments, replace(current(), **circumstances), deadline)

    def open_request(
        self, what: str | OwnAction, arguments: Mapping[str, Any], **circumstances: str
    ) -> Request:
        """Put a call before people as `request` does, but anew where that of the same run has
        ended.
        """
        around = replace(current(), **circumstances)
        return self._put(what, arguments, around, None, while_open=True)

    def _put(
        self,
        what: str | OwnAction,
        arguments: Mapping[str, Any],
        around: Circumstances,
        deadline: Seconds | None,
        *,
        while_open: bool = False,
    ) -> Request:
        own = isinstance(what, OwnAction)
        body: dict[str, Any] = {
            **({"action": what.written()} if isinstance(what, OwnAction) else {"tool": what}),
            "arguments": dict(arguments),
            **_said(around),
            **({"reason": around.reason} if around.reason else {}),
            **({"while_open": True} if while_open else {}),
        }
        if deadline is not None:
            body["deadline_seconds"] = max(1, round(deadline))
        name = what.name if isinstance(what, OwnAction) else what
        named = f"{'own ' if own else ''}{name}{around.call and ' '}{around.call}"
        key = key_of(around.run, named, arguments)
        return _request(self._wire.post(REQUESTS, body, key=key))

    def look(self, request_id: str, wait: Seconds = 0.0) -> Request:
        """Return how a request stands, after so many seconds at most where people decide still."""
        return self._look(REQUESTS, request_id, wait)

    def wait(
        self,
        request_id: str,
        seconds: Seconds | None = None,
        *,
        given_up: threading.Event | None = None,
    ) -> Request:
        """Return it once it is decided, or after so many seconds as it then stands.

        None: as long as it takes. Once `given_up` is set, raises GivenUp within a minute.
        """
        return self._until(REQUESTS, request_id, seconds, given_up, IS_DECIDED)

    def ended(self, request_id: str, seconds: Seconds | None = None) -> Request:
        """Return it once nothing more will come of it, or after so many seconds as it stands."""
        return self._until(REQUESTS, request_id, seconds, None, HAS_ENDED)

    def left(self, request_id: str) -> Request:
        """Return it once nobody runs it (any more), as it then stands."""
        return self._until(
            REQUESTS,
            request_id,
            None,
            None,
            lambda found: found.status is not RequestStatus.RUNNING,
        )

    def claim(
        self, request_id: str, claimant: str = "", *, patience: Seconds = PATIENCE
    ) -> Handout:
        """Take what was approved, to run it now; once, and with these arguments.

        `claimant`: a random text of 16 characters or more, made anew for each attempt; the same
        one is given the same again, and more time. Raises AlreadyTaken, why it is not approved
        (any more), NotAllowed and Unreachable.
        """
        said = {"claimant": claimant or new_claimant()}
        try:
            answer = self._wire.post(_path(request_id, "claim"), said, patience=patience)
        except NotAllowed as refusal:
            request = self.look(request_id)
            trouble = trouble_of(request) or AlreadyTaken(
                f"It is not handed out: {refusal} What was handed out once is not done again.",
                request,
            )
            raise trouble from refusal
        try:
            return handout_of(answer)
        except (KeyError, TypeError, ValueError):
            raise _garbled() from None

    def report(
        self, request_id: str, claimant: str, *, succeeded: bool | None, result: Any
    ) -> Request:
        """Say what came of it; `result` is JSON of 100 kB at most. Raises NotAllowed, Unreachable.

        `succeeded`: None where this program has handed it on, and cannot say how it goes; it may
        say so later. NotAllowed is for who has not claimed it, or where it was said otherwise
        before.
        """
        said = {"claimant": claimant, "succeeded": succeeded, "result": result}
        return _request(self._wire.post(_path(request_id, "outcome"), said))

    def cancel(self, request_id: str, *, patience: Seconds = PATIENCE) -> Request:
        """Take it back; raises NotAllowed where it has ended, or was handed out."""
        return _request(self._wire.post(_path(request_id, "cancel"), {}, patience=patience))

    def withdraw(self, request_id: str) -> Request:
        """Return it as it stands once nobody waits for it: cancelled, unless it was decided."""
        try:
            return self.cancel(request_id)
        except NotAllowed:
            return self.look(request_id)

    def open_question(self, question: str | Mapping[str, Any], **circumstances: str) -> Request:
        """Put a question before somebody, and return once it is stored; anew where that of the
        same run has ended.
        """
        return self._put_question(question, replace(current(), **circumstances), while_open=True)

    def _put_question(
        self,
        question: str | Mapping[str, Any],
        around: Circumstances,
        *,
        while_open: bool = False,
    ) -> Request:
        asked = {"question": question} if isinstance(question, str) else dict(question)
        body: dict[str, Any] = {"question": asked, **_said(around)}
        if while_open:
            body["while_open"] = True
        key = key_of(around.run, "a question", asked)
        return _request(self._wire.post(QUESTIONS, body, key=key))

    def hook(
        self, said: Mapping[str, Any], *, look: Seconds = LONGEST_LOOK, **terms: str
    ) -> dict[str, Any]:
        """Hand on what Claude Code says at one of its hooks; return what it is answered.

        Before people have decided, after `look` seconds: the request's `id`, `link` and `status`;
        say the same again then. `terms`: those of the hook's address. Raises NotAllowed and
        Unreachable.
        """
        path = f"{HOOK}?{urlencode(terms)}" if terms else HOOK
        answer = self._wire.post(path, said, later=look)
        if not isinstance(answer, dict):
            raise _garbled()
        return answer

    def ask_person(
        self,
        question: str | Mapping[str, Any],
        seconds: Seconds | None = None,
        **circumstances: str,
    ) -> Any:
        """Ask somebody for information, and return what they say; it approves nothing.

        `question`: words, or the arguments of the tool ask_person. Waits `seconds`, None: as long
        as it takes. Raises Expired, Rejected for who cannot answer, NotAllowed and Unreachable.
        """
        request = self._put_question(question, replace(current(), **circumstances))
        request = self._until(QUESTIONS, request.id, seconds, None, HAS_ENDED)
        if not request.is_decided:
            raise Expired("Nobody has answered yet.", request)
        if trouble := trouble_of(request):
            raise trouble
        return request.result

    def _look(
        self,
        where: str,
        request_id: str,
        wait: Seconds,
        patience: Seconds | None = PATIENCE,
    ) -> Request:
        wait = min(max(wait, 0.0), LONGEST_LOOK)
        path = f"{where}/{quote(request_id, safe='')}"
        return _request(self._wire.get(f"{path}?wait={int(wait)}", waits=wait, patience=patience))

    def _until(
        self,
        where: str,
        request_id: str,
        seconds: Seconds | None,
        given_up: threading.Event | None,
        enough: Callable[[Request], bool],
    ) -> Request:
        stop, heard_at = given_up or threading.Event(), time.monotonic()
        until = float("inf") if seconds is None else heard_at + seconds
        found: Request | None = None
        longest = LOOK
        while True:
            asked_at = time.monotonic()
            is_first = found is None  # what somebody else runs is only looked at, not waited for
            wait = 0.0 if is_first else min(longest, until - asked_at)
            try:
                found = self._look(where, request_id, wait, None)
                heard_at = time.monotonic()
                if is_first and not enough(found):
                    continue
            except TooManyAtOnce:  # wait already: then it is looked at now and again
                longest = 0.0
            except Unreachable:  # the request stands, and somebody may answer while there is time
                if time.monotonic() >= (heard_at + GONE if seconds is None else until):
                    raise
            if found is not None and enough(found):
                return found
            pause = asked_at + GLANCE - time.monotonic()  # it was answered at once
            if pause > 0:
                stop.wait(max(min(pause, until - time.monotonic()), 0.0))
            if stop.is_set():
                raise GivenUp("Nobody waits for it any more.")
            if found is not None and time.monotonic() >= until:
                return found


def new_claimant() -> str:
    """Return a name for one attempt to run something."""
    return uuid.uuid4().hex


def _path(request_id: str, act: str) -> str:
    return f"{REQUESTS}/{quote(request_id, safe='')}/{act}"


def _said(around: Circumstances) -> dict[str, str]:
    """In whose name and where, as the API is told; what is left out is as the key has it."""
    found = {"requester": around.requester, "channel": around.channel}
    return {name: text for name, text in found.items() if text}


def _request(said: Any) -> Request:
    try:
        return request_of(said)
    except (KeyError, TypeError, ValueError):
        raise _garbled() from None


def _garbled() -> Unreachable:
    return Unreachable("Countersign says something that this client does not know; is it newer?")
