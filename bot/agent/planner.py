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
from dataclasses import dataclass, field
from typing import Any, NoReturn

import openai
import tenacity

from bot.agent.troubles import TRANSIENT, CutStreamError, kind_of, may_pass, sentence_of
from bot.agent.turn import PlannerError, Proposal, Proposed, Reply, Sink
from bot.watch.passages import Lookout, Work

log = logging.getLogger("countersign.planner")


@dataclass(slots=True)
class _Turn:
    text: list[str] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)
    tokens: int = 0  # in and out
    written: int = 0  # out alone
    complete: bool = False
    cut: str = ""  # why it is complete and not whole


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
    ) -> _Turn:
        request = request_of(self._model, self._effort, transcript, tools, instructions)
        turn = _Turn()
        with self._watch.over(Work.MODEL) as passage:
            try:
                with self._post(request) as stream:
                    while (event := _next(stream)) is not _END:
                        if isinstance(event, dict):
                            _take(turn, event, sink)
                if not turn.complete:
                    raise CutStreamError("the model's answer broke off")
            except (openai.OpenAIError, CutStreamError, PlannerError) as error:
                passage.end = kind_of(error)
                raise
            finally:
                passage.amounts |= {"in": turn.tokens - turn.written, "out": turn.written}
        return turn

    def _post(self, request: dict[str, Any]) -> openai.Stream[object]:
        """Open the stream of a response, whose events come as the plain JSON they are.

        `responses.create` posts the same with the same options, but transforms each item on its
        way out and builds a typed object of each event, of which a turn needs next to nothing.
        """
        return self._client.post(
            "/responses",
            body={**request, "stream": True},
            options={"security": {"bearer_auth": True}},
            cast_to=object,
            stream=True,
            stream_cls=openai.Stream[object],
        )


def request_of(
    model: str,
    effort: str | None,
    transcript: Sequence[dict[str, Any]],
    tools: Sequence[dict[str, Any]],
    instructions: str,
) -> dict[str, Any]:
    """The request for one turn."""
    request: dict[str, Any] = {
        "model": model,
        "instructions": instructions,
        "input": list(transcript),
        "tools": list(tools),
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "truncation": "auto",
    }
    if effort:
        request["reasoning"] = {"effort": effort}
    return request


_END = object()


def _next(stream: openai.Stream[object]) -> object:
    """The next event, or _END; whatever breaks on the way is a cut stream."""
    try:
        return next(stream, _END)
    except openai.OpenAIError:
        raise
    except Exception as error:
        raise CutStreamError(f"{type(error).__name__}: {error}") from error


def _take(turn: _Turn, event: dict[str, Any], sink: Sink) -> None:
    """Add to `turn` what an event says; kinds that are not known carry nothing it needs."""
    match event.get("type"):
        case "response.output_text.delta" | "response.refusal.delta":
            turn.text.append(event["delta"])
            sink.write(event["delta"])
        case "response.output_item.done":
            turn.items.append(event["item"])
        case "response.completed" | "response.incomplete":
            if details := event["response"].get("incomplete_details"):
                turn.cut = str(details.get("reason") or "unknown")
            usage = event["response"].get("usage")
            turn.tokens = usage["total_tokens"] if usage else 0
            turn.written = min(turn.tokens, (usage or {}).get("output_tokens") or 0)
            turn.complete = True
        case "response.failed":
            _raise_failed(event["response"].get("error") or {})
        case "error":
            raise CutStreamError(event["message"])


def _raise_failed(error: dict[str, Any]) -> NoReturn:
    """Raise CutStreamError for a failure that may pass, else PlannerError."""
    if error.get("code") in ("server_error", "rate_limit_exceeded"):
        raise CutStreamError(error["message"])
    why = error.get("message", "no reason given")
    raise PlannerError(f"The model refused the request: {why}.")


def _result(turn: _Turn) -> Reply | Proposal:
    text = "".join(turn.text)
    calls = [
        Proposed(
            str(item.get("call_id") or ""),
            str(item.get("name") or ""),
            str(item.get("arguments") or ""),
            index,
        )
        for index, item in enumerate(turn.items)
        if item.get("type") == "function_call"
    ]
    return (
        Proposal(text, calls, turn.items, turn.tokens)
        if calls
        else Reply(text, turn.items, turn.tokens, turn.cut)
    )
