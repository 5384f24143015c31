"""The Responses API dialect: writes requests and reads answers. Items are kept verbatim.

Requests and events are plain JSON, because typed objects would cost more than a turn needs.
"""

from __future__ import annotations

from typing import Any

from bot.agent.model_errors import CutStreamError, raise_stream_error
from bot.agent.turn import AnswerSink, Dialect, GatheredAnswer, ModelRequest


def build_request_body(asked: ModelRequest) -> dict[str, Any]:
    """Return the body of the request for one turn; nothing is stored at the provider."""
    request: dict[str, Any] = {
        "model": asked.model,
        "instructions": asked.instructions,
        "input": asked.transcript,
        "tools": asked.tools,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "truncation": "disabled",  # nothing is left out behind our back
    }
    if asked.effort:
        request["reasoning"] = {"effort": asked.effort}
    return request


class ResponseReader:
    """Reads the stream of one response."""

    def __init__(self, sink: AnswerSink) -> None:
        self._sink = sink
        self._gathered = GatheredAnswer()

    def get_answer_so_far(self) -> GatheredAnswer:
        """Return what has been read of the answer so far."""
        return self._gathered

    def read_event(self, event: dict[str, Any]) -> None:
        """Process one event of the stream; raises like `raise_stream_error`, or CutStreamError."""
        gathered = self._gathered
        match event.get("type"):
            case "response.output_text.delta" | "response.refusal.delta":
                gathered.text.append(event["delta"])
                self._sink.write(event["delta"])
            case "response.output_item.done":
                gathered.items.append(event["item"])
            case "response.completed" | "response.incomplete":
                if details := event["response"].get("incomplete_details"):
                    gathered.cut_reason = str(details.get("reason") or "unknown")
                usage = event["response"].get("usage")
                gathered.tokens = usage["total_tokens"] if usage else 0
                gathered.output_tokens = min(
                    gathered.tokens, (usage or {}).get("output_tokens") or 0
                )
                gathered.complete = True
            case "response.failed":
                raise_stream_error(event["response"].get("error") or {})
            case "error":
                raise CutStreamError(event["message"])


RESPONSES = Dialect(
    name="the Responses API",
    path="/responses",
    build_request_body=build_request_body,
    make_reader=ResponseReader,
    streaming_parameters={"stream": True},
    compaction_path="/responses/compact",
)
