"""The client of the model's server: a thread's transcript goes in, a Reply or a Proposal comes out.

Knows no Slack and no database. Requests and events are plain JSON: OpenAI's client is used for its
address, key, time-outs and errors, but not for its types.

A turn that fails raises PlannerError, which says why in one sentence. Its cause may be an error of
OpenAI's client (429, 5xx, connection, time-out) or a cut stream, after the last try.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Any

import openai
import tenacity
from openai._models import FinalRequestOptions
from pydantic_core import PydanticSerializationError, to_json

from bot.agent import model_errors, turn
from bot.agent.responses import RESPONSES_DIALECT
from bot.monitoring.spans import Tracer, WorkKind

log = logging.getLogger("countersign.planner")


class Planner:
    """The client of one model, by the Responses or Chat Completions API; retries failed requests.

    Answers are streamed if the server can do that. OpenAI's server is asked to store nothing.
    """

    def __init__(
        self,
        client: openai.OpenAI,
        *,
        model: str,
        dialects: Sequence[turn.Dialect] = (RESPONSES_DIALECT,),
        reasoning_effort: str | None = None,
        retries: int = 4,
        backoff: float = 1.0,
        stopping: threading.Event | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """`dialects` are tried in order; the first that the server speaks is used from then on.

        A failed request is repeated up to `retries` times, first after `backoff` seconds, doubling,
        with jitter.
        """
        self._client = client.with_options(max_retries=0)
        self._model = model
        self._dialects = tuple(dialects)
        self._streams: bool | None = None  # whether the server streams; None: not known yet
        self._effort = reasoning_effort
        self._retries = retries
        self._backoff = backoff
        self._stopping = stopping or threading.Event()
        self._tracer = tracer or Tracer()
        # those that the server or the model does not have; any thread
        self._refused_parameters: frozenset[str] = frozenset()
        self._can_compact = True  # until the server says that it has no such API

    def close(self) -> None:
        """Close the client's connections; a turn under way fails."""
        self._client.close()

    def take_turn(
        self,
        transcript: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        instructions: str,
        sink: turn.AnswerSink,
    ) -> turn.Reply | turn.Proposal:
        """Take one model turn. Raises PlannerError; whatever `sink` raises passes through."""
        request = turn.ModelRequest(
            self._model, self._effort, list(transcript), list(tools), instructions
        )
        sink = turn.WholeCharacterSink(sink)

        def again(state: tenacity.RetryCallState) -> None:
            log.warning(
                "model turn failed, trying again: %s", state.outcome and state.outcome.exception()
            )
            sink.discard_text()

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(model_errors.TRANSIENT_ERRORS)
            & tenacity.retry_if_exception(model_errors.can_retry),
            stop=tenacity.stop_after_attempt(self._retries + 1)
            | tenacity.stop_when_event_set(self._stopping),
            wait=self._compute_retry_delay,
            sleep=tenacity.sleep_using_event(self._stopping),
            before_sleep=again,
            reraise=True,
        )
        try:
            return turn.build_turn_result(retrying(self._ask_once, request, sink))
        except (openai.OpenAIError, model_errors.CutStreamError) as error:
            raise model_errors.build_planner_error(error, self._model) from error

    @property
    def compaction_server_id(self) -> str:
        """Return the address of the model's server, which alone can read what it compacts.

        "" if it compacts nothing.
        """
        return str(self._client.base_url) if self._dialects[0].compaction_path else ""

    def compact_items(
        self, items: Sequence[dict[str, Any]], instructions: str
    ) -> turn.CompactedItems | None:
        """Have the server compact these items, with one try; None if it cannot or does not."""
        path = self._dialects[0].compaction_path
        if not path or not self._can_compact:
            return None
        body = {"model": self._model, "input": list(items), "instructions": instructions}
        with self._tracer.start_span(WorkKind.MODEL) as span:
            try:
                response: Any = self._client.post(
                    path,
                    body=body,
                    options={"security": {"bearer_auth": True}},
                    cast_to=object,
                )
            except openai.OpenAIError as error:
                span.end = model_errors.classify_error(error)
                self._can_compact = not model_errors.is_api_missing(error)
                log.info("the model's server has not compacted a thread: %s", error)
                return None
            if not isinstance(response, dict):  # perhaps a page of a proxy in between
                return None
            tokens, written = turn.count_tokens(response.get("usage"), "output_tokens")
            span.amounts |= {"in": tokens - written, "out": written}
        compacted = turn.list_objects(response.get("output"))
        if not any(each.get("type") == "compaction" for each in compacted):
            return None
        return turn.CompactedItems(compacted, tokens)

    def _compute_retry_delay(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, openai.APIStatusError):
            asked = error.response.headers.get("retry-after", "")
            if asked.replace(".", "", 1).isdecimal():
                return min(float(asked), 120.0)
        wait = tenacity.wait_exponential_jitter(
            multiplier=self._backoff, max=60, jitter=self._backoff
        )
        return float(wait(state))

    def _ask_once(self, request: turn.ModelRequest, sink: turn.AnswerSink) -> turn.GatheredAnswer:
        if self._streams is not False:
            try:
                return self._send_request(request, sink)
            except model_errors.StreamWithoutAnswerError as error:
                if self._stopping.is_set():  # stopping closes our own streams
                    raise
                log.info("not streamed, so the model is asked for all at once: %s", error)
                sink.discard_text()
        try:
            gathered = self._send_request(request, sink, whole=True)
        except openai.APITimeoutError:
            raise
        except openai.APIConnectionError:  # the server may close it after an empty stream
            gathered = self._send_request(request, sink, whole=True)
        self._streams = bool(self._streams)
        return gathered

    def _send_request(
        self, request: turn.ModelRequest, sink: turn.AnswerSink, *, whole: bool = False
    ) -> turn.GatheredAnswer:
        reading: turn.AnswerReader | None = None
        with self._tracer.start_span(WorkKind.MODEL) as span:
            try:
                dialect, answer = self._send_in_first_dialect(request, whole=whole)
                reading, bounds = dialect.make_reader(sink), AnswerLimits(self._client)
                with closing(_iterate_events(answer, dialect)) as events:
                    for event in events:
                        if not whole:
                            bounds.check_event(event)
                        reading.read_event(event)
                gathered = reading.get_answer_so_far()
                if not gathered.complete:
                    # the stream ended without an error: a server may end one to serve another
                    ended = (
                        model_errors.StreamWithoutAnswerError
                        if dialect.accepts_unstreamed and not whole
                        else model_errors.CutStreamError
                    )
                    raise ended("the model's answer broke off")
                if not gathered.tokens:
                    turn.set_estimated_token_counts(request, gathered)
            except (openai.OpenAIError, model_errors.CutStreamError, turn.PlannerError) as error:
                span.end = model_errors.classify_error(error)
                raise
            finally:
                so_far = reading.get_answer_so_far() if reading else turn.GatheredAnswer()
                span.amounts |= {
                    "in": so_far.tokens - so_far.output_tokens,
                    "out": so_far.output_tokens,
                }
        if not whole:
            self._streams = True
        return gathered

    def _send_in_first_dialect(
        self, request: turn.ModelRequest, *, whole: bool
    ) -> tuple[turn.Dialect, object]:
        """Send the request in the first dialect that the server speaks, and use only that later."""
        dialects = self._dialects
        for dialect in dialects:
            try:
                answer = self._post_request(dialect, request, whole=whole)
            except openai.APIStatusError as error:
                if (
                    dialect.accepts_unstreamed
                    and not whole
                    and model_errors.is_streaming_unsupported(error)
                ):
                    self._dialects = (dialect,)
                    raise model_errors.StreamWithoutAnswerError(str(error)) from error
                if not model_errors.is_api_missing(error) or dialect is dialects[-1]:
                    raise
                log.info("the model's server has no %s: %s", dialect.path, error)
            else:
                self._dialects = (dialect,)
                return dialect, answer
        raise ValueError("a planner needs a dialect")

    def _post_request(
        self, dialect: turn.Dialect, request: turn.ModelRequest, *, whole: bool
    ) -> object:
        """Send a request; return the stream of the answer's events or, if `whole`, the answer.

        Both are plain JSON. The library's own methods post the same with the same options, but
        convert each item and build a typed object of each event, most of which no turn needs.
        """
        body = dialect.build_request_body(request)
        for name in self._refused_parameters:
            body.pop(name, None)
        try:
            return self._post_body(dialect, body, whole=whole)
        except openai.APIStatusError as error:
            if not (refused := model_errors.find_refused_parameter(error, dialect, body)):
                raise
            log.info("the model is asked without %s from now on: %s", refused, error)
            self._refused_parameters |= {refused}
            return self._post_request(dialect, request, whole=whole)

    def _post_body(self, dialect: turn.Dialect, body: dict[str, Any], *, whole: bool) -> object:
        options: openai.RequestOptions = {"security": {"bearer_auth": True}}
        if whole:
            return self._client.post(dialect.path, body=body, options=options, cast_to=object)
        return self._client.post(
            dialect.path,
            body={**body, **dialect.streaming_parameters},
            options=options,
            cast_to=object,
            stream=True,
            stream_cls=openai.Stream[object],
        )


def _iterate_events(answer: object, dialect: turn.Dialect) -> Generator[dict[str, Any]]:
    """Yield the events of a streamed answer, or a whole answer as one event.

    Raises StreamWithoutAnswerError for an empty stream if the answer may also be had whole.
    """
    if not isinstance(answer, openai.Stream):
        if isinstance(answer, dict):
            yield answer
        return
    began = False
    with answer as stream:
        try:
            while (event := _read_next_event(stream)) is not _STREAM_END:
                if isinstance(event, dict):
                    began = True
                    yield event
        except (model_errors.CutStreamError, openai.APIConnectionError) as error:
            slow = isinstance(error, openai.APITimeoutError)
            if began or slow or not dialect.accepts_unstreamed:
                raise
            raise model_errors.StreamWithoutAnswerError(str(error)) from error
    if not began and dialect.accepts_unstreamed:
        raise model_errors.StreamWithoutAnswerError("the stream was empty")


_STREAM_END = object()


def _read_next_event(stream: openai.Stream[Any]) -> object:
    """Return the stream's next event, or _STREAM_END; other libraries' errors are CutStreamError.

    A failure reported in the stream is CutStreamError if a retry may help, else PlannerError.
    Errors of the client pass through.
    """
    try:
        return next(stream, _STREAM_END)
    except openai.APIError as error:
        if type(error) is openai.APIError:  # reported in the stream, not by an HTTP status
            model_errors.raise_stream_error(
                error.body if isinstance(error.body, dict) else {"message": str(error)}
            )
        raise
    except openai.OpenAIError:
        raise
    except Exception as error:
        raise model_errors.CutStreamError(f"{type(error).__name__}: {error}") from error


MAX_ANSWER_CHARS = 200_000  # including its calls and reasoning
ANSWER_TIMEOUT_FACTOR = 5.0  # the longest a whole answer may take, in read time-outs
ENDLESS_ANSWER_ERROR = (
    "The model's answer did not end, as if it were repeating itself, so it was cut off. Ask in "
    "other words, or for less at once."
)


class AnswerLimits:
    """The limits of length and time for one answer."""

    def __init__(self, client: openai.OpenAI) -> None:
        """Start the clock; the time limit is a multiple of the time-out of `client`."""
        timeout = client.timeout
        quiet = timeout if isinstance(timeout, int | float) or timeout is None else timeout.read
        self._deadline = None if quiet is None else time.monotonic() + ANSWER_TIMEOUT_FACTOR * quiet
        self._chars_left = MAX_ANSWER_CHARS

    def check_event(self, event: dict[str, Any]) -> None:
        """Count one event; raises PlannerError if the answer is too long, or took too long."""
        self._chars_left -= _count_characters(event.get("delta")) + _count_characters(
            event.get("choices")
        )
        is_late = self._deadline is not None and time.monotonic() > self._deadline
        if self._chars_left < 0 or is_late:
            raise turn.PlannerError(ENDLESS_ANSWER_ERROR)


def _count_characters(part: Any) -> int:
    if isinstance(part, str):
        return len(part)
    if isinstance(part, dict):
        return sum(map(_count_characters, part.values()))
    return sum(map(_count_characters, part)) if isinstance(part, list) else 0


class ModelClient(openai.OpenAI):
    """OpenAI's client, encoding long transcripts in a third of the library's usual time."""

    def _prepare_options(self, options: FinalRequestOptions) -> FinalRequestOptions:
        """Return the options with their body encoded to bytes, which the library sends unchanged.

        The library calls this before each attempt. A body that cannot be encoded is left to the
        library.
        """
        options = super()._prepare_options(options)
        body: Any = options.json_data
        if isinstance(body, dict) and options.extra_json is None and not options.files:
            try:
                options.json_data = to_json(body)
            except PydanticSerializationError:
                return options
        return options
