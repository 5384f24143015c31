"""A model that proposes, makes mistakes, breaks off and repeats itself, as the seed chooses.

It checks each transcript: each call has exactly one output before anybody goes on.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from bot.agent.turn import (
    AnswerSink,
    FunctionCall,
    ModelRequestTooLongError,
    PlannerError,
    Proposal,
    Reply,
)
from tests.proof.simulation.fibers import Scheduler
from tests.proof.simulation.workspace import ALONE, Workspace

TOOLS = (*["note"] * 4, *["wipe", "put"] * 2, "free", "peek", "desk", "ask_person")
LONG = "It is done as you asked, and here is a good deal more about it. " * 4
BAD_ARGUMENTS = (
    "{",
    "[]",
    '{"text": 7}',
    '{"text": "a", "text": "b"}',
    '{"text": "a", "more": 1}',
    '{"text": "' + "x" * 501 + '"}',
)
Json = dict[str, Any]


class SimModel:
    """A bot.agent.turn.ModelPlanner."""

    def __init__(self, scheduler: Scheduler, workspace: Workspace = ALONE) -> None:
        self._scheduler, self._random = scheduler, scheduler.random
        self._workspace, self._mark = workspace, workspace.mark
        self.calm = False
        self.reads_little = False  # threads are often longer than it can read
        self.summaries = 0
        self.turns = 0
        self.wrong: list[str] = []

    def take_turn(
        self, transcript: Sequence[Json], tools: Sequence[Json], words: str, sink: AnswerSink
    ) -> Reply | Proposal:
        """Think, then say something."""
        self.turns += 1
        self._check_transcript(transcript)
        self._scheduler.pause("the model thinks")
        offered = [each["name"] for each in tools]
        for name in offered:
            if offered.count(name) > 1:
                self.wrong.append(f"{name} is offered twice")
        if not self.calm:
            self._fail_sometimes(sink)
        if not tools:
            self.summaries += 1
            return self._make_reply(sink)
        if self.reads_little and self._random.random() < 0.1:
            raise ModelRequestTooLongError("The thread has become too long.", 200)
        if self.calm or self._random.random() < 0.35:
            return self._make_reply(sink)
        if "replace_waiting_plan" in offered and self._random.random() < 0.5:
            return self._make_proposal(transcript, back=True)
        return self._make_proposal(transcript, back=False)

    compaction_server_id = ""

    def compact_items(self, items: object, instructions: str) -> None:
        """Its server cannot compact."""

    def close(self) -> None:
        """Nothing to close."""

    def _fail_sometimes(self, sink: AnswerSink) -> None:
        chance = self._random.random()
        if chance < 0.03:
            raise PlannerError("The model had enough.")
        if chance < 0.10:
            self._write_text(LONG[: self._random.randrange(len(LONG))], sink)
            if chance < 0.06:
                raise PlannerError("The connection to the model broke.")
            sink.discard_text()

    def _write_text(self, text: str, sink: AnswerSink) -> None:
        for start in range(0, len(text), 90):
            sink.write(text[start : start + 90])
            self._scheduler.pause("the model speaks")

    def _make_reply(self, sink: AnswerSink) -> Reply:
        text = self._random.choice(("Done.", "Done.", LONG, ""))
        text += self._mark if text else ""
        cut = "max_output_tokens" if self._random.random() < 0.05 else ""
        self._write_text(text, sink)
        content = [{"type": "output_text", "text": text}]
        return Reply(text, [{"role": "assistant", "content": content}], 1, cut)

    def _make_proposal(self, transcript: Sequence[Json], *, back: bool) -> Proposal:
        asked = [each for each in transcript if each.get("type") == "function_call"]
        items = [
            self._make_call(asked, number) for number in range(self._random.choice((1, 1, 2, 3)))
        ]
        if back:
            call_id = f"b{self.turns}"
            wish = {"type": "function_call", "call_id": call_id, "name": "replace_waiting_plan"}
            items.insert(self._random.randrange(len(items) + 1), {**wish, "arguments": "{}"})
            if self._random.random() < 0.3:
                items = [each for each in items if each["call_id"] == call_id]
        proposed = [
            FunctionCall(each["call_id"], each["name"], each["arguments"], number)
            for number, each in enumerate(items)
        ]
        return Proposal("", proposed, items, 1)

    def _make_call(self, asked: list[Json], number: int) -> Json:
        choose = self._random.choice
        name = "invented" if self._random.random() < 0.02 else choose(TOOLS)
        arguments = json.dumps({"text": choose("abcd") + self._mark})
        if name == "ask_person":
            to = {"to": "@shop-leads"} if self._random.random() < 0.3 else {}
            kind = choose(("yes_no", "text"))
            arguments = json.dumps(
                {"question": f"Which {choose('abcd')}{self._mark}?", "kind": kind, **to}
            )
        call_id = f"p{self.turns}_{number}"
        chance = self._random.random()
        if chance < 0.04:
            arguments = choose(BAD_ARGUMENTS)
        elif chance < 0.08 and asked:
            call_id = choose(asked)["call_id"]
        elif chance < 0.10:
            call_id = choose(("", f"p{self.turns}_0"))
        elif chance < 0.20 and asked:  # the same call again, whatever its outcome
            again = choose(asked)
            if again["name"] != "replace_waiting_plan":
                name, arguments = again["name"], again["arguments"]
        made = {"type": "function_call", "call_id": call_id, "name": name}
        return {**made, "arguments": arguments}

    def _check_transcript(self, transcript: Sequence[Json]) -> None:
        asked = [each["call_id"] for each in transcript if each.get("type") == "function_call"]
        told = [e["call_id"] for e in transcript if e.get("type") == "function_call_output"]
        if Counter(asked) != Counter(told) or len(set(asked)) != len(asked):
            self.wrong.append(f"asked {asked}, told {told}")
        if foreign := self._workspace.find_foreign(json.dumps(transcript)):
            self.wrong.append(f"the model is shown {foreign!r}")
        waiting: set[str] = set()
        for each in transcript:
            if each.get("type") == "function_call":
                waiting.add(each["call_id"])
            elif each.get("type") == "function_call_output":
                waiting.discard(each["call_id"])
            elif each.get("role") == "user" and waiting:
                self.wrong.append(f"{waiting} had no output before somebody wrote")
