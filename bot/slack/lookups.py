"""Look-ups in Slack with a cache of their answers; equal look-ups share one call.

Each kind of look-up has threads of its own, so that Slack's rate limit on one kind does not delay
others; the caller says how long to wait for an answer.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import wraps
from http.client import HTTPException
from typing import Any, TypeVar

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry import HttpRequest, HttpResponse, RetryState
from slack_sdk.http_retry.builtin_handlers import (
    ConnectionErrorRetryHandler,
    RateLimitErrorRetryHandler,
    ServerErrorRetryHandler,
)

from bot.clock import Clock
from bot.monitoring.spans import Tracer, WorkKind
from bot.policy import authority
from bot.policy.approver_lists import USER_ID_PATTERN
from bot.signals import Signals
from bot.slack.client import SlackClient, parse_retry_after
from bot.slack_codes import TOKEN_ERROR_CODES, extract_error_code

# The calls that read people, user groups and channels, and the parts of their answers to keep.

MAX_RATE_LIMIT_WAIT_SECONDS = 30.0  # longest wait for a rate limit, before a look-up tries again
THREAD_METHOD = "conversations.replies"  # only helpful: a request goes on without it
MAX_THREAD_WAIT_SECONDS = 5.0
MAX_QUIET_HOURS_USERS = 50  # people in one call of Slack's dnd.teamInfo
PAGE_SIZE = 999  # Slack asks for less than a thousand
SECONDS_PER_DAY = 86_400  # no time zone's offset from UTC is as large
NOT_FOUND_CODES = (
    *("user_not_found", "users_not_found", "channel_not_found", "user_not_visible"),
    "team_access_not_granted",  # the organisation has not given the bot this workspace
)
Json = dict[str, Any]


def _translate_slack_errors(
    read: Callable[[SlackLookupClient, str], T],
) -> Callable[[SlackLookupClient, str], T | None]:
    """Make a reading method return None if Slack knows no such thing.

    Every other error of Slack's becomes LookupFailedError; its subclass TokenRefusedError if Slack
    refuses the token.
    """

    @wraps(read)
    def asked(reader: SlackLookupClient, name: str) -> T | None:
        try:
            return read(reader, name)
        except SlackApiError as error:
            code = extract_error_code(error)
            if code in NOT_FOUND_CODES:
                return None
            is_token = code in TOKEN_ERROR_CODES
            failure = authority.TokenRefusedError if is_token else authority.LookupFailedError
            raise failure(code or "no answer") from error

    return asked


def build_read_only_slack_client(
    token: str, base_url: str, tracer: Tracer | None = None
) -> SlackClient:
    """Return a client for calls that only read: it retries, and waits when Slack limits it.

    Closing the client ends the waiting, so that a stopping process does not wait for Slack.
    """
    ended = threading.Event()
    client = SlackClient(
        token,
        base_url=base_url,
        tracer=tracer,
        timeout=5,
        retry_handlers=[
            _NoAnswerRetryHandler(ended),
            ServerErrorRetryHandler(max_retry_count=2),
            _RateLimitRetryHandler(ended),
        ],
    )
    client.on_close = ended.set
    return client


class _NoAnswerRetryHandler(ConnectionErrorRetryHandler):
    """A handler that retries calls whose answer is missing, incomplete or late, until closed."""

    def __init__(self, ended: threading.Event) -> None:
        super().__init__(max_retry_count=2, error_types=[OSError, HTTPException])
        self._ended = ended

    def _can_retry(self, **about: Any) -> bool:
        return not self._ended.is_set() and super()._can_retry(**about)


class _RateLimitRetryHandler(RateLimitErrorRetryHandler):
    """A retry handler that waits in the caller's thread as long as a 429 says, until closed."""

    def __init__(self, ended: threading.Event) -> None:
        super().__init__(max_retry_count=2)
        self._ended = ended

    def _can_retry(
        self, *, request: HttpRequest, response: HttpResponse | None = None, **_: Any
    ) -> bool:
        if response is None or response.status_code != 429 or self._ended.is_set():
            return False
        is_long = _get_seconds_to_wait(response) > MAX_THREAD_WAIT_SECONDS
        return not (is_long and request.url.endswith(THREAD_METHOD))

    def prepare_for_next_attempt(
        self, *, state: RetryState, response: HttpResponse | None = None, **_: Any
    ) -> None:
        """Wait for the seconds in Retry-After (1 if none), at most MAX_RATE_LIMIT_WAIT_SECONDS."""
        self._ended.wait(min(_get_seconds_to_wait(response), MAX_RATE_LIMIT_WAIT_SECONDS))
        state.next_attempt_requested = True
        state.increment_current_attempt()


def _get_seconds_to_wait(response: HttpResponse | None) -> float:
    given = response.headers if response else {}
    headers = {name.lower(): value for name, value in given.items()}
    return parse_retry_after((headers.get("retry-after") or ["1"])[0]) or 1.0


class SlackLookupClient:
    """Slack's read calls for people, groups and channels; any thread.

    Every method takes the id or name to look up; the methods for whole lists (people, groups,
    channels) ignore it.
    """

    def __init__(self, client: WebClient) -> None:
        """`client` may retry."""
        self._client = client

    @_translate_slack_errors
    def read_person(self, user: str) -> Json | None:
        """Return one person by user id, as Slack has them.

        None for an id that a person had before their workspace joined an organisation; Slack
        answers with their new id. Requests and votes under the old id count as nobody's, so that
        one person cannot decide twice.
        """
        found: Json = self._client.users_info(user=user)["user"]
        return found if found["id"] == user else None

    @_translate_slack_errors
    def read_everybody(self, _: str) -> dict[str, Json]:
        """Return everybody in the workspace as Slack has them, by user id."""
        pages = self._client.users_list(limit=PAGE_SIZE)
        return {each["id"]: each for page in pages for each in page["members"]}

    @_translate_slack_errors
    def read_quiet_hours(self, users: str) -> dict[str, authority.QuietHours]:
        """Return the do-not-disturb hours, now or next, of people by id; pauses included.

        `users`: their ids, separated by commas.
        """
        quiet_hours: dict[str, authority.QuietHours] = {}
        for user, each in self._client.dnd_teamInfo(users=users)["users"].items():
            start, end = map(
                _parse_timestamp, map(each.get, ("next_dnd_start_ts", "next_dnd_end_ts"))
            )
            if each.get("dnd_enabled") and start and end:
                quiet_hours[user] = (start, end)
        return quiet_hours

    @_translate_slack_errors
    def read_groups(self, _: str) -> dict[str, authority.Group]:
        """Return every enabled user group by its handle."""
        response = self._client.usergroups_list(include_disabled=False, include_users=True)
        groups = {each["id"]: each for each in response["usergroups"]}.values()
        handles = Counter(each["handle"] for each in groups)
        for handle in [each for each, count in handles.items() if count > 1]:
            log.warning("several workspaces have a user group @%s: none of them is used", handle)
        return {
            each["handle"]: authority.Group(each["id"], frozenset(each.get("users") or ()))
            for each in groups
            if handles[each["handle"]] == 1
        }

    @_translate_slack_errors
    def read_channel_members(self, channel: str) -> frozenset[str]:
        """Return the user ids of a channel's members."""
        pages = self._client.conversations_members(channel=channel, limit=PAGE_SIZE)
        return frozenset(user for page in pages for user in page["members"])

    @_translate_slack_errors
    def read_channel(self, channel: str) -> Json:
        """Return one channel by id, as Slack has it."""
        found: Json = self._client.conversations_info(channel=channel)["channel"]
        return found

    @_translate_slack_errors
    def read_channels(self, _: str) -> dict[str, Json]:
        """Return all channels that the bot can see and that are not archived, by id."""
        kinds = "public_channel,private_channel"
        pages = self._client.conversations_list(types=kinds, exclude_archived=True, limit=PAGE_SIZE)
        return {each["id"]: each for page in pages for each in page["channels"]}

    @_translate_slack_errors
    def read_common_private_channels(self, user: str) -> frozenset[str]:
        """Return the ids of the private channels that both the person and the bot are in."""
        kinds = "private_channel"
        pages = self._client.users_conversations(user=user, types=kinds, limit=PAGE_SIZE)
        return frozenset(each["id"] for page in pages for each in page["channels"])

    @_translate_slack_errors
    def read_manager(self, name: str) -> tuple[str, ...]:
        """Return the user ids in a field of a person's profile, such as their manager's.

        `name`: JSON of the field's id or label, and the person's user id. The person's own id is
        left out.
        """
        field, user = json.loads(name)
        labels = not field.startswith("Xf")  # Slack allows few requests for the labels of fields
        profile = self._client.users_profile_get(user=user, include_labels=labels)["profile"]
        fields: Json = profile.get("fields") or {}
        values = [v["value"] for k, v in fields.items() if field in (k, v.get("label"))]
        ids = (each for value in values for each in value.split(","))
        return tuple(each for each in ids if USER_ID_PATTERN.fullmatch(each) and each != user)


def get_casefolded_names(found: Json) -> frozenset[str]:
    """Return all names of an active person, case-folded; none for a bot or a deactivated user."""
    if found.get("deleted") or found.get("is_bot") or found["id"] == "USLACKBOT":
        return frozenset()
    profile = found.get("profile") or {}
    real = profile.get("real_name") or found.get("real_name")
    names = (profile.get("display_name"), real, found.get("name"))
    return frozenset(str(each).casefold() for each in names if each)


def _parse_timestamp(seconds: object) -> datetime | None:
    """Return a Unix timestamp as a time in UTC; None if it is no valid timestamp."""
    if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds <= 0:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _parse_utc_offset(found: Json) -> timedelta | None:
    """Return the offset of a user's time zone; None if Slack names no zone."""
    seconds = found.get("tz_offset")
    if not found.get("tz") or not isinstance(seconds, int) or abs(seconds) >= SECONDS_PER_DAY:
        return None
    return timedelta(seconds=seconds)


def build_person_from_slack_user(
    user: Json, granted: Collection[str] | None = None
) -> authority.Person:
    """Return a Slack user as a Person, with the attributes that approvals need.

    `granted`: the workspaces to which an organisation gave the bot access; None without an
    organisation. A person who is in none of them is not counted as one of the organisation.
    """
    profile = user.get("profile") or {}
    enterprise = user.get("enterprise_user") or {}
    teams = {*(enterprise.get("teams") or ())}
    if granted is None or not teams.isdisjoint(granted):
        teams.add(enterprise.get("enterprise_id"))  # the bot may be in the whole organisation
    return authority.Person(
        id=user["id"],
        team=user.get("team_id") or "",
        name=user.get("real_name") or profile.get("real_name") or user.get("name") or user["id"],
        is_bot=bool(user.get("is_bot")) or user["id"] == "USLACKBOT",
        is_guest=any(map(user.get, ("is_restricted", "is_ultra_restricted", "is_stranger"))),
        deleted=bool(user.get("deleted")),
        teams=frozenset(teams - {None, ""}),
        status=str(profile.get("status_emoji") or "").strip(":"),
        status_until=_parse_timestamp(profile.get("status_expiration")),
        utc_offset=_parse_utc_offset(user),
    )


log = logging.getLogger("countersign.lookups")
MAX_ANSWER_AGE = timedelta(seconds=60)  # of cached answers other than lists
MAX_LIST_AGE = timedelta(minutes=10)
MAX_REMEMBERED_ANSWERS = 20_000  # then the oldest is dropped
MAX_PARALLEL = 8  # look-ups of one kind
T = TypeVar("T")


class LookupKind(StrEnum):
    """The kinds of look-ups."""

    PERSON = "person"  # by id
    QUIET_HOURS = "quiet_hours"  # some people's do-not-disturb hours, by their ids
    GROUPS = "groups"  # every user group, with its members
    MEMBERS = "members"  # of a channel, by its id
    CHANNEL = "channel"  # by #name or id
    CHANNELS = "channels"  # the list of all channels
    PRIVATE = "private"  # the private channels a person is in
    PEOPLE = "people"  # the list of everybody
    OWNERS = "owners"  # owners of a value, by the operator's own function
    MANAGER = "manager"  # of a person, by a field of their profile


LIST_KINDS = (LookupKind.CHANNELS, LookupKind.PEOPLE)
LookupKey = tuple[LookupKind, str]


class _PendingLookup:
    """A look-up in progress."""

    def __init__(self) -> None:
        self.answer: Future[Any] = Future()
        self.is_awaited = False  # somebody could not wait, and will ask again

    def set_outcome(self, value: Any, failure: Exception | None) -> None:
        """Set the result or the failure for all who wait; only the first call has an effect."""
        with suppress(InvalidStateError):
            if failure is None:
                self.answer.set_result(value)
            else:
                self.answer.set_exception(failure)


class LookupCache:
    """A cache of answers that starts a look-up for a missing one; one per process, any thread."""

    def __init__(self, clock: Clock, signals: Signals) -> None:
        """Start empty; `signals` wake the loop after an answer for which it could not wait."""
        self._clock = clock
        self._signals = signals
        self._lock = threading.RLock()
        self._answers: dict[LookupKey, tuple[datetime, Any]] = {}
        self._failed: dict[LookupKey, authority.LookupFailedError] = {}
        self._pending: dict[LookupKey, _PendingLookup] = {}
        self._open_count = 0
        self._pools: dict[LookupKind, ThreadPoolExecutor] = {}
        self._closed = False

    def close(self) -> None:
        """Cancel the look-ups in progress, and begin no more.

        Callers that wait or ask later get LookupPendingError, so nobody is refused; the next start
        decides.
        """
        with self._lock:
            self._closed = True
            pools, flights = list(self._pools.values()), list(self._pending.values())
            self._pending.clear()
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)
        for flight in flights:
            flight.set_outcome(None, authority.LookupPendingError())

    def is_idle(self) -> bool:
        """Return whether no look-up is in progress."""
        with self._lock:
            return self._open_count == 0

    def count_pending(self, kind: LookupKind) -> int:
        """Return how many look-ups of that kind are not answered yet."""
        with self._lock:
            return sum(key[0] is kind for key in self._pending)

    def find_cached_answer(self, key: LookupKey, age: timedelta | None = None) -> tuple[Any] | None:
        """Return the cached answer in a tuple; None if there is none, or it is older than `age`.

        Without `age` the usual limit applies: 10 minutes for lists, 60 seconds for anything else.
        """
        at_most = age or (MAX_LIST_AGE if key[0] in LIST_KINDS else MAX_ANSWER_AGE)
        with self._lock:
            found = self._answers.get(key)
        return (found[1],) if found and self._clock.now() - found[0] < at_most else None

    def drop_answers(self, kind: LookupKind | None = None, name: str = "") -> None:
        """Drop the cached answers of that kind and name; an empty argument matches all.

        Look-ups already in progress began before this, so their answers are not cached either.
        """
        with self._lock:
            for table in (self._answers, self._pending, self._failed):
                for key in [k for k in table if kind in (None, k[0]) and name in ("", k[1])]:
                    del table[key]

    def drop_answer_if_older(self, key: LookupKey, age: timedelta) -> None:
        """Drop the cached answer if it is as old as `age` or older; keep look-ups in progress."""
        with self._lock:
            if self.find_cached_answer(key, age) is None:
                self._answers.pop(key, None)

    def update_cached(self, key: LookupKey, change: Callable[[Any], Any]) -> None:
        """Replace a cached answer, if there is one, by what `change` makes of it."""
        with self._lock:
            if found := self._answers.get(key):
                self._answers[key] = (found[0], change(found[1]))

    def start_lookup(self, key: LookupKey, ask: Callable[[str], Any]) -> None:
        """Start a look-up without waiting, unless its answer is cached or on its way."""
        if self.find_cached_answer(key) is None:
            self._get_or_start_lookup(key, ask)

    def get_or_look_up_answer(self, key: LookupKey, ask: Callable[[str], T], seconds: float) -> T:
        """Return the cached answer, else Slack's answer within so many seconds.

        Raises LookupFailedError. Raises LookupPendingError if `seconds` is 0 and there is no answer
        yet (the look-up goes on), and once the bot is stopping.
        """
        if cached := self.find_cached_answer(key):
            value: T = cached[0]
            return value
        if seconds > 0:
            try:
                answer: T = self._get_or_start_lookup(key, ask).answer.result(seconds)
            except NotInTime:
                raise authority.LookupFailedError("Slack did not answer in time") from None
            return answer
        with self._lock:
            failure = self._failed.pop(key, None)
        if failure is not None:
            raise failure
        flight = self._get_or_start_lookup(key, ask, is_awaited=True)
        if flight.answer.done() and flight.answer.exception() is None:
            at_last: T = flight.answer.result()
            return at_last
        raise authority.LookupPendingError(flight.answer)

    def _get_or_start_lookup(
        self, key: LookupKey, ask: Callable[[str], Any], *, is_awaited: bool = False
    ) -> _PendingLookup:
        """Return this key's look-up in progress, or one with the cached answer, or start one."""
        with self._lock:
            if self._closed:
                raise authority.LookupPendingError
            flight = self._pending.get(key)
            if flight is not None:
                flight.is_awaited |= is_awaited
                return flight
            if cached := self.find_cached_answer(key):  # answered since the caller looked
                flight = _PendingLookup()
                flight.set_outcome(cached[0], None)
                return flight
            flight = self._pending[key] = _PendingLookup()
            flight.is_awaited = is_awaited
            self._open_count += 1
            kind = key[0]
            if kind not in self._pools:
                self._pools[kind] = ThreadPoolExecutor(MAX_PARALLEL, thread_name_prefix=kind)
            self._pools[kind].submit(copy_context().run, self._run_lookup, key, flight, ask)
        return flight

    def _run_lookup(
        self, key: LookupKey, flight: _PendingLookup, ask: Callable[[str], Any]
    ) -> None:
        """Run a look-up, cache its answer, and pass it to all who wait."""
        at, value, failure = self._clock.now(), None, None
        with self._signals.tracer.start_span(WorkKind.LOOK_UP, key[0]) as span:
            try:
                value = ask(key[1])
            except authority.LookupFailedError as error:
                failure = error
            except Exception as error:  # noqa: BLE001 - whoever wants it is refused
                failure = authority.LookupFailedError(type(error).__name__)
            span.end = "" if failure is None else "failed"
        with self._lock:
            if self._pending.get(key) is flight:
                del self._pending[key]
                if failure is None:
                    self._answers.pop(key, None)
                    self._answers[key] = (at, value)
                    if len(self._answers) > MAX_REMEMBERED_ANSWERS:
                        del self._answers[next(iter(self._answers))]
                elif flight.is_awaited:
                    self._failed[key] = failure
        if failure is not None:
            name = "…" if key[0] is LookupKind.OWNERS else key[1]  # the value may be secret
            log.warning("look-up of %s %s failed: %s", key[0], name, failure)
        flight.set_outcome(value, failure)
        if flight.is_awaited:
            self._signals.work.notify()
        with self._lock:
            self._open_count -= 1
        self._signals.rest.notify_changed()
