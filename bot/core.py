"""What the loop, the worker and the Slack edge share: one value, made once in `bot.app`, that owns
no thread.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, SecretBytes, SecretStr, TypeAdapter
from pydantic_core import to_jsonable_python

from bot.clock import Clock
from bot.policy.authority import Authority, Directory
from bot.policy.evaluate import Policy
from bot.policy.gates import Ask, Gate
from bot.settings import Settings
from bot.tools import Registry, Tool
from storage.digest import canonical, digest
from storage.models import Run
from storage.store import Store

GATE: TypeAdapter[Gate] = TypeAdapter(Gate)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the bot is in the installing workspace."""

    team: str
    user: str
    bot: str


@dataclass(slots=True)
class Core:
    """The parts everything needs."""

    settings: Settings
    store: Store
    clock: Clock
    policy: Policy
    tools: Registry
    authority: Authority
    directory: Directory
    identity: Identity
    key: bytes
    # what is under way is left for the next start
    stopping: threading.Event = field(default_factory=threading.Event)
    wake: Callable[[], None] = field(default=lambda: None)  # a fact was stored: look
    calm: Callable[[], None] = field(default=lambda: None)  # let what arrives be acknowledged first
    post: Callable[[], None] = field(default=lambda: None)  # the outbox has something: look


def dump_arguments(args: BaseModel) -> str:
    """Validated arguments as canonical JSON: what is stored, shown, digested and run.

    Raises OddValueError.
    """
    return canonical(
        to_jsonable_python(opened(args.model_dump(mode="python", exclude_computed_fields=True)))
    )


def load_arguments(tool: Tool[Any], text: str) -> BaseModel:
    """Stored arguments as the tool's model.

    Raises pydantic.ValidationError when they no longer fit it.
    """
    args: BaseModel = tool.arguments.model_validate_json(
        text, extra="forbid", by_alias=True, by_name=True
    )
    return args


def readable_arguments(tool: Tool[Any], text: str) -> dict[str, Any]:
    """Stored arguments as JSON values in the form the tool's own types give them: an amount reads
    40.00, not 40.
    """
    args = load_arguments(tool, text).model_dump(mode="python", exclude_computed_fields=True)
    values: dict[str, Any] = to_jsonable_python(opened(args, exact=False))
    return values


def opened(value: Any, *, exact: bool = True) -> Any:
    """A dumped value with secret types opened (Pydantic writes them as stars), sets in order.

    `exact`: equal decimals in one form.
    """
    if isinstance(value, SecretStr | SecretBytes):
        return value.get_secret_value()
    if isinstance(value, Decimal) and exact:  # 40.0 and 40.00 are one amount, and one text
        return json.loads(canonical(value))
    if isinstance(value, dict):
        return {key: opened(each, exact=exact) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [opened(each, exact=exact) for each in value]
    # a set has no order of its own, and the digest needs one
    if isinstance(value, set | frozenset):
        members = (opened(each, exact=exact) for each in value)
        return sorted(members, key=lambda each: canonical(to_jsonable_python(each)))
    return value


def as_editable(tool: Tool[Any], gate: Gate) -> Tool[Any]:
    """The tool, with no more fields to edit than the gate leaves.

    None where its gate lets nobody edit.
    """
    if not isinstance(gate, Ask) or gate.editable is None:
        return tool
    kept = frozenset(gate.editable)
    return replace(tool, editable=kept if tool.editable is None else kept & tool.editable)


def load_gate(text: str) -> Gate:
    """The gate stored with a call."""
    return GATE.validate_json(text)


def dump_gate(gate: Gate) -> str:
    """A gate as canonical JSON."""
    return canonical(gate.model_dump(mode="json"))


def fingerprint(
    core: Core, run: Run, tool: Tool[Any], arguments: str, *, gate: str, revision: int, expects: str
) -> str:
    """The digest of exactly what would run, for whom, under which gate, and what its preview
    promised.
    """
    return digest(
        core.key,
        tool=tool.name,
        schema=tool.schema_digest(),
        arguments=arguments,
        requester=run.requester,
        team=run.team,
        gate=gate,
        revision=revision,
        expects=expects,
    )


def body(text: str) -> dict[str, Any]:
    """A stored JSON object."""
    loaded: dict[str, Any] = json.loads(text)
    return loaded
