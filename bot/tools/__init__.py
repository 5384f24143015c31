"""Tools, whose calls the agent may propose: how a tool is declared and registered.

A tool is a function, a Pydantic model of its arguments, and what a person has to know to judge a
call. This file knows neither Slack nor OpenAI; the tools themselves live beside it.

    class Refund(BaseModel):
        order_id: int = Field(title="Order")
        amount: Decimal = Field(title="Amount", gt=0, max_digits=8, decimal_places=2)

    @tool(title="Refund an order", effect="Refund {amount} EUR", does=Effect.WRITE)
    def refund_order(args: Refund, context: ToolContext) -> dict[str, object]: ...
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum, StrEnum
from functools import lru_cache
from string import Formatter
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pydantic import BaseModel

from bot.policy.condition_values import SlackId
from bot.tools import declared_values, registration
from bot.tools.effect_template import EffectFormatter, format_for_people
from storage.masking import MASK, ValuePath, replace_values_at_paths

if TYPE_CHECKING:
    from bot.tools.person_question import AskPerson
    from storage.models import Call

REASON_SCHEMA = {"type": "string", "maxLength": 500, "description": "Why, for the approver."}
SUB_AGENT_TOOL_NOTICE = (  # added to the description of every sub-agent's tool
    "A separate agent works on it. It sees nothing of this conversation and starts at once, before "
    "any other call of the same turn is decided: what it has to wait for belongs in an "
    "earlier turn."
)


class Effect(StrEnum):
    """What a call does to the world; policy rules match on this class."""

    READ = "read"  # changes nothing; may run at once when policy allows
    WRITE = "write"  # changes something that can be put right
    DESTRUCTIVE = "destructive"  # cannot be taken back; Approve asks for confirmation


class EffectSource(StrEnum):
    """The source of a tool's effect class; a call with no trusted source counts as destructive."""

    BY_AUTHOR = "author"  # whoever defined the tool
    BY_NOBODY = "nobody"  # not stated by anyone
    BY_STRANGER = "stranger"  # stated by an untrusted MCP server


class Code(str):
    """An argument in a programming language, which people read in a monospaced font."""

    __slots__ = ()


class ElicitationOutcome(StrEnum):
    """How a question from a running tool ended."""

    ANSWERED = "answered"
    DECLINED = "declined"  # the person asked cannot or will not answer
    NOBODY = "nobody"  # no answer in time, or the question is no longer needed
    REFUSED = "refused"  # the question may not be asked


@dataclass(frozen=True, slots=True)
class ElicitationAnswer:
    """The outcome of a question that a tool asked while it ran, with the values that were given."""

    outcome: ElicitationOutcome
    values: dict[str, Any] = field(default_factory=dict)  # JSON values by field: a0, a1, …
    why: str = ""  # for a refused question


@dataclass(frozen=True, slots=True)
class ElicitationRequest:
    """A question that an MCP server asks in the middle of a call."""

    question: AskPerson
    server: str  # name of the server that asks
    seconds: float  # how long to wait for the answer


class ElicitationPort:
    """Tells people a running call's progress and asks them questions; usable from any thread.

    An answer is data and approves nothing. This base class reaches nobody.
    """

    def tell(self, words: str) -> None:
        """Report the call's progress in words for people; only the latest text counts."""

    def ask(self, question: ElicitationRequest, is_over: Callable[[], bool]) -> ElicitationAnswer:
        """Ask the requester a question and wait for the answer, or until `is_over` returns true.

        This base class refuses every question.
        """
        return ElicitationAnswer(ElicitationOutcome.REFUSED, why="there is nobody to ask")


NOBODY = ElicitationPort()


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool and its preview may know about the call they are run for."""

    call_id: str  # unguessable and stable over retries: use it as the idempotency key
    run_id: str
    team: str
    requester: str  # Slack user id of the person who asked
    channel: str
    thread_ts: str
    now: datetime
    expects: str = ""  # the preview's `expects`, as approved; "" when nobody was asked
    line: ElicitationPort = NOBODY  # progress and questions to people while the call runs


class ToolError(Exception):
    """Raised by a tool to refuse a call; the model reads the message ("no order 1042").

    If a preview raises this error, no approver is asked. `field`: the argument that is wrong.
    """

    def __init__(self, message: str = "", *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class BrokeOffError(ToolError):
    """Raised by a tool that failed after it had begun: part of its effect may have happened."""


class ChangedError(ToolError):
    """Raised by a tool that did nothing because what people approved no longer holds.

    People are then asked again.
    """


@dataclass(frozen=True, slots=True)
class Table:
    """Rows as a tool's result.

    The model gets JSON; people get a table in the thread, and a CSV file if there are many rows.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool = False  # there are more rows than these


@dataclass(frozen=True, slots=True)
class Preview:
    """What a tool shows on the card before a call is run."""

    text: str  # plain text for approvers, shown in a monospaced block
    # what must still hold when the call runs, in the tool's own format; see ToolContext.expects. If
    # it begins with "rows=10;", the effect is shown as one on 10 rows
    expects: str = ""
    # what everybody who sees the card reads instead of `text`; None: `text` itself
    in_thread: str | None = None
    # a read that would show the same: where policy allows it to the requester, all see `text`
    as_read: tuple[Tool[Any], BaseModel] | None = None
    # all rows, of which `text` shows some; sent to approvers who ask for them
    rows: Table | None = None


Risk = Literal["low", "medium", "high"]
DEFAULT_RISK_BY_EFFECT: Mapping[Effect, Risk] = {
    Effect.READ: "low",
    Effect.WRITE: "medium",
    Effect.DESTRUCTIVE: "high",
}
A = TypeVar("A", bound=BaseModel)
Result = str | int | float | bool | None | Mapping[str, Any] | list[Any] | BaseModel | Table
ToolFunction = Callable[[A, ToolContext], Result | Awaitable[Result]]
PreviewResult = str | Preview
PreviewFunction = Callable[[A, ToolContext], PreviewResult | Awaitable[PreviewResult]]
OutcomeFunction = Callable[[A, Any], str]
StepFunction = Callable[[A], str]


@lru_cache(1024)
def _dump_tool_schema(model: type[BaseModel]) -> str:
    """Return a model's JSON Schema as text; cached, since each turn needs those of all tools."""
    return json.dumps(registration.build_tool_schema(model))


@lru_cache(1024)
def _schema_digest(name: str, does: Effect, model: type[BaseModel]) -> str:
    body = json.dumps([name, does, model.model_json_schema()], sort_keys=True)
    return hashlib.sha256(body.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Agent:
    """A sub-agent's prompt, and the names of the tools whose calls it may propose."""

    prompt: str
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """One registered tool; immutable, so that it stays what people were shown."""

    name: str
    title: str
    effect: str  # str.format template over the arguments' fields
    does: Effect
    arguments: type[A]
    function: ToolFunction[A]
    description: str = ""
    idempotent: bool = False  # safe to run again with the same ToolContext.call_id
    secret: frozenset[str] = frozenset()  # fields that people see only masked, in addition to those
    # whose schema or type is marked as secret (`declared_values`)
    editable: frozenset[str] | None = None  # None: all fields may be edited
    preview: PreviewFunction[A] | None = None  # for the card; must not change anything
    effect_source: EffectSource = EffectSource.BY_AUTHOR  # who stated `does`
    # (arguments, result) -> what people read after the call: "Refunded 30.00 EUR, 59.90 left"
    outcome: OutcomeFunction[A] | None = None
    # (arguments) -> what people read during the call, after "is": "looking up order 1042"
    step: StepFunction[A] | None = None
    timeout: float = 60.0  # seconds
    max_output: int = 20_000  # characters of output the model is given
    # ask people although it only reads, unless a policy rule allows it by name
    needs_approval: bool = False
    risk: Risk = "medium"  # for policy rules
    agent: Agent | None = None  # the sub-agent that does it; `function` then returns its task
    is_available: Callable[[], bool] = lambda: True  # False while it is switched off
    action: str = ""  # description of what a program runs itself; see bot.tools.handed_over

    def __post_init__(self) -> None:
        registration.check_option_values(self)
        object.__setattr__(self, "does", Effect(self.does))  # it may have been given as text

    @property
    def needs_reason(self) -> bool:
        """Whether the model is asked to give a reason for the approver."""
        return self.needs_approval or self.does is not Effect.READ

    @property
    def declared_effect(self) -> str:
        """The effect class that the tool's author declared; "" if the author declared none."""
        return self.does.value if self.effect_source is EffectSource.BY_AUTHOR else ""

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments as the model gets it, with the reason field.

        The reason is listed as required where one is due, but calls without a reason are accepted.
        """
        schema: dict[str, Any] = json.loads(_dump_tool_schema(self.arguments))
        if self.needs_reason:
            schema.setdefault("properties", {})[registration.REASON_FIELD] = REASON_SCHEMA
            schema.setdefault("required", []).append(registration.REASON_FIELD)
        return schema

    def schema_digest(self) -> str:
        """Return a SHA-256 (hex) over name, effect class and argument schema of the tool.

        For a sub-agent its prompt and tools count too, for a handed-over action its whole
        description. A changed digest means that this is another tool.
        """
        digest = _schema_digest(self.name, self.does, self.arguments)
        if self.agent is None and not self.action:
            return digest
        agent = [self.agent.prompt, self.agent.tools] if self.agent else [self.action]
        body = json.dumps([digest, *agent])
        return hashlib.sha256(body.encode()).hexdigest()

    def list_secret_paths(self, values: Mapping[str, Any] | BaseModel) -> frozenset[ValuePath]:
        """Return the paths of all secret values in these arguments, at any depth."""
        return declared_values.list_secret_paths(self.arguments, self.secret, values)

    @property
    def has_secrets(self) -> bool:
        """Whether any of the tool's arguments may be secret."""
        return bool(self.secret) or declared_values.may_path_hold_secrets(self.arguments, ())

    def mask_arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with secret values, at any depth, replaced by a fixed mask."""
        found: dict[str, Any] = replace_values_at_paths(
            values, self.list_secret_paths(values), lambda *_: MASK
        )
        return dict(found)

    def effect_sentence(self, args: A, names: Mapping[str, str] | None = None) -> str:
        """Return the effect template filled in, secrets masked, ids replaced by their `names`.

        Returns the title when the template does not fit the values.
        """
        known = names or {}
        formatter = EffectFormatter(
            lambda text: known.get(text, text) if isinstance(text, SlackId) else str(text)
        )
        paths = self.list_secret_paths(args)
        values: dict[str, Any] = {}
        for name in type(args).model_fields:
            key = declared_values.get_dump_key(type(args), name)
            below = frozenset(path[1:] for path in paths if path[0] == key)
            value = declared_values.mask_at_paths(getattr(args, name), below)
            values[name] = MASK if name in self.secret else value
        try:
            return " ".join(formatter.format(self.effect, **values).split())
        except (LookupError, ValueError, AttributeError, TypeError):
            return self.title

    def list_arguments_in_effect(self, args: A) -> dict[ValuePath, str]:
        """Return, by path, the arguments that the effect sentence has as they are.

        Empty if the tool's author did not write the template, or it does not fit the values.
        """
        fits = self.effect_sentence(args) != self.title
        by_author = fits and self.effect_source is EffectSource.BY_AUTHOR
        return {
            (declared_values.get_dump_key(type(args), name),): format_for_people(value)
            for _, name, spec, conversion in Formatter().parse(self.effect if by_author else "")
            if name in type(args).model_fields and not spec and not conversion
            for value in [getattr(args, name)]
            if isinstance(value, Enum) or str(value) == format_for_people(value)
        }


def tool(
    *,
    title: str,
    effect: str,
    does: Effect,
    name: str | None = None,
    idempotent: bool | None = None,
    secret: set[str] | None = None,
    editable: set[str] | None = None,
    preview: PreviewFunction[Any] | None = None,
    outcome: OutcomeFunction[Any] | None = None,
    step: StepFunction[Any] | None = None,
    timeout: float = 60.0,
    max_output: int = 20_000,
    needs_approval: bool = False,
    risk: Risk | None = None,
) -> Callable[[Callable[..., Any]], Tool[Any]]:
    """Return a decorator that makes a Tool of a function `(args: SomeModel, context: ToolContext)`.

    The function may be sync or async. Its name, docstring and first annotation become the tool's
    name, description and argument model. Reads count as idempotent, and risk follows the effect
    class, unless stated otherwise. Raises TypeError or ValueError for an invalid definition.
    """

    def wrap(function: Callable[..., Any]) -> Tool[Any]:
        tool_name = name or function.__name__
        model = registration.get_argument_model(function, tool_name)
        registration.check_field_names(tool_name, model, effect, secret=secret, editable=editable)
        registration.check_callback_parameters(tool_name, model, preview, outcome, step)
        return Tool(
            name=tool_name,
            title=title,
            effect=effect,
            does=does,
            arguments=model,
            function=function,
            description=inspect.cleandoc(function.__doc__ or title),
            idempotent=(does == Effect.READ) if idempotent is None else idempotent,
            secret=frozenset(secret or ()),
            editable=None if editable is None else frozenset(editable),
            preview=preview,
            outcome=outcome,
            step=step,
            timeout=timeout,
            max_output=max_output,
            needs_approval=needs_approval,
            risk=risk or DEFAULT_RISK_BY_EFFECT.get(does, "high"),
        )

    return wrap


def agent_tool(
    *,
    title: str,
    effect: str,
    prompt: str,
    tools: Iterable[str],
    name: str | None = None,
    needs_approval: bool = False,
    risk: Risk | None = None,
    max_output: int = 20_000,
) -> Callable[[Callable[..., Any]], Tool[Any]]:
    """Return a decorator that makes a sub-agent Tool of a function.

    An agent with its own prompt and tools carries its calls out. Such a call changes nothing by
    itself, so it is a read; each call that its agent proposes is gated, shown and decided as any
    other. The function takes `(args, context)` and returns the task for the agent as text. `tools`:
    names of the tools the agent may use, other sub-agents among them. `needs_approval`: people
    approve before the agent begins, unless a rule of the policy allows this tool by name. Raises
    TypeError or ValueError for an invalid definition.
    """
    names = tuple(tools)
    if not prompt.strip() or not names:
        raise ValueError(f"sub-agent {title!r}: it needs a prompt, and tools")

    def wrap(function: Callable[..., Any]) -> Tool[Any]:
        plain_tool = tool(
            title=title,
            effect=effect,
            does=Effect.READ,
            name=name,
            needs_approval=needs_approval,
            risk=risk,
            max_output=max_output,
        )(function)
        description = f"{plain_tool.description}\n\n{SUB_AGENT_TOOL_NOTICE}"
        return replace(plain_tool, agent=Agent(prompt, names), description=description)

    return wrap


@dataclass(slots=True)
class Registry:
    """All tools of this process, by name."""

    tools: dict[str, Tool[Any]] = field(default_factory=dict)
    # tools that are switched off in the settings; policies may still name them
    excluded_tools: dict[str, Tool[Any]] = field(default_factory=dict)
    # only the bot itself proposes these calls: found for stored calls, never offered to the model
    internal_tools: dict[str, Tool[Any]] = field(default_factory=dict)
    find_action_tool: Callable[[str], Tool[Any] | None] = lambda _: None  # the tool of an `action`

    def add(self, *tools: Tool[Any]) -> None:
        """Register tools; ValueError when a name is taken or not [A-Za-z0-9_]{1,64}."""
        for each in tools:
            if each.name in self.tools or each.name in self.internal_tools:
                raise ValueError(f"two tools are named {each.name}")
            if not re.fullmatch(r"[A-Za-z0-9_]{1,64}", each.name):
                raise ValueError(f"tool name {each.name!r} is not [A-Za-z0-9_]{{1,64}}")
            self.tools[each.name] = each

    def get(self, name: str) -> Tool[Any] | None:
        """Return the tool with this name; None if there is none or it is switched off."""
        found = self.tools.get(name)
        return found if found is not None and found.is_available() else None

    def find_tool_of_call(self, call: Call) -> Tool[Any] | None:
        """Return the tool of a stored call, or of its handed-over action; None if there is none."""
        if call.action:
            return self.find_action_tool(call.action)
        return self.get(call.tool) or self.internal_tools.get(call.tool)

    def find_tool_as_shown(self, call: Call) -> Tool[Any] | None:
        """Return a stored call's tool; None if it is gone, or is not what people were shown."""
        tool = self.find_tool_of_call(call)
        return tool if tool and tool.schema_digest() == call.schema_digest else None

    def get_call_tool_even_if_off(self, call: Call) -> Tool[Any]:
        """Return a stored call's tool even if it was just switched off; KeyError if unknown."""
        return self.find_tool_of_call(call) or self.tools[call.tool]

    def check_sub_agent_tools(self) -> None:
        """Raise ValueError if a sub-agent lists tools that are not registered."""
        for each in self:
            missing = [] if each.agent is None else sorted(set(each.agent.tools) - set(self.tools))
            if missing:
                raise ValueError(
                    f"the sub-agent {each.name} names tools that do not exist: {', '.join(missing)}"
                )

    def select_sub_agent_tools(self, agent: Agent, *, sub_agents: bool) -> Registry:
        """Return the tools that an agent may use, with or without further `sub_agents`."""
        found = (self.tools[name] for name in agent.tools if name in self.tools)
        return Registry({each.name: each for each in found if sub_agents or each.agent is None})

    def __iter__(self) -> Any:
        return (each for each in self.tools.values() if each.is_available())
