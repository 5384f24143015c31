"""The Responses API dialect: writes requests and reads answers. Items are kept verbatim.

Requests and events are plain JSON, because typed objects would cost more than a turn needs.
"""

from __future__ import annotations

from typing import Any

from bot.agent import model_errors, turn
from bot.agent.turn import AnswerSink, Dialect, GatheredAnswer, ModelRequest


def build_request_body(model_request: ModelRequest) -> dict[str, Any]:
    """Return the body of the request for one turn; nothing is stored at the provider."""
    request: dict[str, Any] = {
        "model": model_request.model,
        "instructions": model_request.instructions,
        "input": model_request.transcript,
        "tools": model_request.tools,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "truncation": "disabled",  # the server must not leave anything out without saying so
    }
    if model_request.effort:
        request["reasoning"] = {"effort": model_request.effort}
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
        gathered, answer = self._gathered, turn.get_object_or_empty(event.get("response"))
        match event:
            case {"type": "response.output_text.delta" | "response.refusal.delta", "delta": str(d)}:
                gathered.text.append(d)
                self._sink.write(d)
            case {"item": {"type": "function_call_output"}}:
                pass  # ignored: only Countersign gives outputs
            case {"type": "response.output_item.done", "item": {"type": str()} as item}:
                gathered.items.append(item)
            case {"type": "response.completed" | "response.incomplete"}:
                if not gathered.items:  # some gateways send only the whole
                    self._read_whole_answer(turn.list_objects(answer.get("output")))
                if details := answer.get("incomplete_details"):
                    reason = turn.get_object_or_empty(details).get("reason")
                    gathered.cut_reason = str(reason or "unknown")
                gathered.tokens, gathered.output_tokens = turn.count_tokens(
                    answer.get("usage"), "output_tokens"
                )
                gathered.complete = True
            case {"type": "response.failed"}:
                model_errors.raise_stream_error(turn.get_object_or_empty(answer.get("error")))
            case {
                "type": "error",
                "code": model_errors.CONTEXT_EXCEEDED_CODE | model_errors.UNUSABLE_REASONING_CODE,
            }:
                model_errors.raise_stream_error(event)
            case {"type": "error"}:
                raise model_errors.CutStreamError(str(event.get("message")))

    def _read_whole_answer(self, output: list[dict[str, Any]]) -> None:
        """Read the items of an answer, and its text if that has not been read before."""
        messages = [] if self._gathered.text else [o for o in output if o.get("type") == "message"]
        for part in (each for m in messages for each in turn.list_objects(m.get("content"))):
            said = part.get("text") or part.get("refusal")
            self.read_event({"type": "response.output_text.delta", "delta": said})
        for item in output:
            self.read_event({"type": "response.output_item.done", "item": item})


RESPONSES_DIALECT = Dialect(
    name="the Responses API",
    path="/responses",
    build_request_body=build_request_body,
    make_reader=ResponseReader,
    streaming_parameters={"stream": True},
    optional_parameters=("include", "truncation"),  # the server's default is the same, or nothing
    compaction_path="/responses/compact",
)
