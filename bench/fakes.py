"""Stand-ins for the model, the people and Slack, to measure only the bot."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from itertools import count
from typing import Any

from slack_sdk import WebClient

from bot.agent.turn import AnswerSink, FunctionCall, Proposal, Reply
from bot.cards.answers import EMPTY_FOOTER, ModelAnswerFooter
from bot.policy.authority import Group, Person, QuietHours
from bot.slack.client import SlackClient
from storage import outbox
from storage.models import Message, Run
from storage.states import MessageKind
from storage.transaction import Transaction

TEAM, ASKER, APPROVER, CHANNEL = "T0BENCH001", "U0ASKER001", "U0APPROVE1", "C0BENCH001"
BOT = "U0BOT00001"
PEOPLE = 12  # requesters
REQUEST = "Please refund 40 EUR of order 1042"
ARGUMENTS = {"order_id": 1042, "text": "Refund 40.00 EUR, the parcel arrived broken"}


def choose_requester(thread: str) -> str:
    """Return the requester of a thread, one of a dozen in turn.

    Before each call the bot counts what its requester asked for within the hour, and nobody makes
    hundreds of requests.
    """
    number = int(thread[-3:]) if thread[-3:].isdecimal() else 0
    return f"U0ASKER1{number % PEOPLE:02}"


class StubModel:
    """A model that proposes one call and answers after its output."""

    def __init__(self, tool_name: str = "note_asked") -> None:
        """Propose a call of `tool_name`."""
        self._tool = tool_name
        self._turns = 0

    compaction_server_id = ""

    def compact_items(self, items: object, instructions: str) -> None:
        """Return None: its server cannot compact."""

    def close(self) -> None:
        """Close nothing."""

    def take_turn(
        self,
        transcript: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        instructions: str,
        sink: AnswerSink,
    ) -> Reply | Proposal:
        """Return a Reply after a call's output, else a Proposal."""
        self._turns += 1
        if transcript and transcript[-1].get("type") == "function_call_output":
            item = {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "It is done."}],
            }
            return Reply("It is done.", [item], 100)
        call = {
            "type": "function_call",
            "call_id": f"call_{id(self):x}_{self._turns}",
            "name": self._tool,
            "arguments": json.dumps(ARGUMENTS),
        }
        return Proposal(
            "",
            [FunctionCall(str(call["call_id"]), self._tool, str(call["arguments"]), 0)],
            [call],
            100,
        )


class FixedDirectory:
    """A `bot.policy.authority.Directory` with a fixed list of people."""

    def find_person(self, user: str) -> Person | None:
        """Everybody is a colleague."""
        return Person(user, TEAM, user, is_bot=False, is_guest=False, deleted=False)

    def find_people(self, users: Collection[str]) -> dict[str, Person]:
        """Everybody is a colleague."""
        return {user: Person(user, TEAM, user) for user in users}

    def find_people_by_name(self, name: str) -> dict[str, str]:
        """Nobody is found by name."""
        return {}

    def find_quiet_hours(self, users: Collection[str]) -> dict[str, QuietHours]:
        """Nobody has quiet hours."""
        return {}

    def find_group(self, handle: str) -> Group | None:
        """There are no groups."""
        return None

    def list_channel_members(self, channel: str) -> frozenset[str]:
        """Every channel has the same two members."""
        return frozenset({ASKER, APPROVER})

    def find_channel_id(self, name: str) -> str | None:
        """Every channel exists."""
        return name

    def can_see_channel(self, user: str, channel: str) -> bool:
        """No channel is private."""
        return True

    def find_public_channel_name(self, channel: str) -> str:
        """A channel's name is its id."""
        return f"#{channel}"

    def is_externally_shared_channel(self, channel: str) -> bool:
        """No channel is shared."""
        return False

    def find_owners(self, field: str, function: str, value: str | int) -> tuple[str, ...]:
        """No function gives owners."""
        return ()


class EmptySlack(WebClient):
    """A Slack whose threads have no messages."""

    def conversations_replies(self, **_: Any) -> Any:
        """One page without messages."""
        return [{"messages": []}]


class AcceptingSlack(SlackClient):
    """A Slack in this process that accepts every post at once."""

    def __init__(self) -> None:
        """Start with no messages."""
        super().__init__("xoxb-bench-bench")
        self._posted = count(1)

    def chat_postMessage(self, **_: Any) -> Any:
        """Return a new message time."""
        return {"ok": True, "ts": f"1700000001.{next(self._posted):06}"}

    def chat_update(self, **_: Any) -> Any:
        """Accept the change."""
        return {"ok": True}

    chat_postEphemeral = reactions_add = reactions_remove = chat_update

    def conversations_replies(self, **_: Any) -> Any:
        """One page without messages."""
        return [{"messages": []}]

    conversations_history = conversations_replies


class SilentThread:
    """A thread, an answer and a status that show nothing."""

    def __init__(self, run: Run | None = None) -> None:
        self._run = run

    def add_messages_to_transcript(self, run: Run) -> None:
        """There are no new messages."""

    def write(self, text: str) -> None:
        """Nothing is streamed."""

    def discard_text(self) -> None:
        """There is nothing to discard."""

    def store_whole_text(
        self, tx: Transaction, text: str, *, last: bool, record: ModelAnswerFooter = EMPTY_FOOTER
    ) -> None:
        """Store the answer's row in the outbox, as for a short answer in Slack."""
        if text and self._run:
            run, body = self._run, outbox.dump_message_body({"text": text, "last": last})
            row = Message(
                key=f"answer:{run.id}:{run.turns}",
                kind=MessageKind.ANSWER,
                run_id=run.id,
                channel=run.channel,
                body=body,
            )
            row.thread_ts = run.thread_ts
            outbox.queue_message(tx, row)

    def close_failed_answer(self) -> None:
        """There is nothing to close."""

    def show_working(self, run: Run) -> None:
        """Show nothing."""

    def show_waiting(self, run: Run) -> None:
        """Show nothing."""

    def show_done(self, run: Run) -> None:
        """Show nothing."""
