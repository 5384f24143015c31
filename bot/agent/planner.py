"""The OpenAI edge: a thread's transcript goes in, a Reply or a Proposal comes out.

Knows no Slack and no database. Requests and events are plain JSON on both ways: the client does
its address, key, time-outs and errors, not its types.

PlannerError            the turn could not be had; says in one sentence why
  └ (from openai)       429, 5xx, connection, time-out and cut streams, once no try is left
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

import openai
import tenacity

from bot.agent.dialect import Gathered, Inquiry
from bot.agent.responses import RESPONSES
from bot.agent.troubles import TRANSIENT, CutStreamError, kind_of, may_pass, sentence_of
from bot.agent.turn import PlannerError, Proposal, Proposed, Reply, Sink
from bot.watch.passages import Lookout, Work

log = logging.getLogger("countersign.planner")


class Planner:
    """One model behind the Responses API, streamed, nothing stored at the provider."""

    def __init__(
        self,
        client: openai.OpenAI,
        *,
        model: str,
        reasoning_effort: str | None = None,
        retries: int = 4,
        backoff: float = 1.0,
        stopping: threading.Event | None = None,
        watch: Lookout | None = None,
    ) -> None:
        """`retries` more tries after the first.

        `backoff` seconds before the first of them, doubling, with jitter.
        """
        self._client = client.with_options(max_retries=0)
        self._model = model
        self._effort = reasoning_effort
        self._retries = retries
        self._backoff = backoff
        self._stopping = stopping or threading.Event()
        self._watch = watch or Lookout()

    def close(self) -> None:
        """Close the client's connections; a turn under way fails."""
        self._client.close()

    def turn(
        self,
        transcript: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        instructions: str,
        sink: Sink,
    ) -> Reply | Proposal:
        """One model turn. Raises PlannerError; whatever `sink` raises passes through."""

        def again(state: tenacity.RetryCallState) -> None:
            log.warning(
                "model turn failed, trying again: %s", state.outcome and state.outcome.exception()
            )
            sink.restart()

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(TRANSIENT)
            & tenacity.retry_if_exception(may_pass),
            stop=tenacity.stop_after_attempt(self._retries + 1)
            | tenacity.stop_when_event_set(self._stopping),
            wait=self._wait,
            sleep=tenacity.sleep_using_event(self._stopping),
            before_sleep=again,
            reraise=True,
        )
        try:
            return _result(retrying(self._once, transcript, tools, instructions, sink))
        except (openai.OpenAIError, CutStreamError) as error:
            raise PlannerError(sentence_of(error)) from error

    def _wait(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, openai.APIStatusError):
            asked = error.response.headers.get("retry-after", "")
            if asked.replace(".", "", 1).isdigit():
                return min(float(asked), 120.0)
        wait = tenacity.wait_exponential_jitter(
            multiplier=self._backoff, max=60, jitter=self._backoff
        )
        return float(wait(state))

    def _once(
        self,
        transcript: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        instructions: str,
        sink: Sink,
    ) -> Gathered:
        asked = Inquiry(self._model, self._effort, list(transcript), list(tools), instructions)
        reading = RESPONSES.reading(sink)
        with self._watch.over(Work.MODEL) as passage:
            try:
                with self._post(asked) as stream:
                    while (event := _next(stream)) is not _END:
                        if isinstance(event, dict):
                            reading.take(event)
                if not reading.gathered().complete:
                    raise CutStreamError("the model's answer broke off")
            except (openai.OpenAIError, CutStreamError, PlannerError) as error:
                passage.end = kind_of(error)
                raise
            finally:
                gathered = reading.gathered()
                passage.amounts |= {
                    "in": gathered.tokens - gathered.written,
                    "out": gathered.written,
                }
        return gathered

    def _post(self, asked: Inquiry) -> openai.Stream[object]:
        """Open the stream of an answer, whose events come as the plain JSON they are.

        `responses.create` posts the same with the same options, but transforms each item on its
        way out and builds a typed object of each event, of which a turn needs next to nothing.
        """
        return self._client.post(
            RESPONSES.path,
            body={**RESPONSES.request_of(asked), **RESPONSES.streamed},
            options={"security": {"bearer_auth": True}},
            cast_to=object,
            stream=True,
            stream_cls=openai.Stream[object],
        )


_END = object()


def _next(stream: openai.Stream[object]) -> object:
    """The next event, or _END; whatever breaks on the way is a cut stream."""
    try:
        return next(stream, _END)
    except openai.OpenAIError:
        raise
    except Exception as error:
        raise CutStreamError(f"{type(error).__name__}: {error}") from error


def _result(gathered: Gathered) -> Reply | Proposal:
    text = "".join(gathered.text)
    calls = [
        Proposed(
            str(item.get("call_id") or ""),
            str(item.get("name") or ""),
            str(item.get("arguments") or ""),
            index,
        )
        for index, item in enumerate(gathered.items)
        if item.get("type") == "function_call"
    ]
    return (
        Proposal(text, calls, gathered.items, gathered.tokens)
        if calls
        else Reply(text, gathered.items, gathered.tokens, gathered.cut)
    )
