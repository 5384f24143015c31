"""The tool whose calls have others approve a person's new passkey; only the bot proposes it.

Neither the model nor a form nor a program can. It does nothing by itself: once it has been approved
and has run, the passkey counts (`bot.runs.endings`, in the transaction that stores its outcome).
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from bot.policy.gates import ADD_PASSKEY
from bot.tools import Effect, ToolContext, tool
from bot.tools.names import PersonId


class NewPasskey(BaseModel):
    """A passkey as its approvers are shown it."""

    person: PersonId = Field(title="Whose")
    passkey: str = Field(title="Name", max_length=60)
    model: str = Field(title="Authenticator", max_length=100)
    fingerprint: str = Field(title="Fingerprint of its public key (SHA-256)", max_length=100)


WHAT_TO_CHECK_TEXT = (
    "Ask this person, not in Slack, whether they have just added it,\n"
    "and whether the message about it shows the same fingerprint."
)


@tool(
    name=ADD_PASSKEY,
    title="Let a new passkey count",
    effect="Let {person} approve with the new passkey “{passkey}”",
    does=Effect.WRITE,
    risk="high",
    idempotent=True,
    editable=set(),
    preview=lambda _args, _context: WHAT_TO_CHECK_TEXT,
    outcome=lambda args, _result: f"The passkey “{args.passkey}” counts from now on",
)
def add_passkey(args: NewPasskey, context: ToolContext) -> str:
    """Let a new passkey of this person count, once others have made sure that it is theirs."""
    return f"{context.requester} may approve with the passkey {args.passkey}."
