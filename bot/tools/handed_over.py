"""Actions that an outside program describes, and runs itself once people have approved them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from string import Formatter
from typing import Any, NoReturn

from pydantic import BaseModel

from bot.tools import (
    DEFAULT_RISK_BY_EFFECT,
    Effect,
    EffectSource,
    Registry,
    Tool,
    ToolContext,
    ToolError,
)
from bot.tools.described import SchemaError, build_argument_model
from bot.tools.person_question import ASK_PERSON
from storage.digest import NonCanonicalValueError, canonical_json

_NAME_PATTERN = re.compile(r"[A-Za-z0-9_]{1,64}")
_MAX_TITLE_CHARS = 80
_MAX_EFFECT_CHARS = 300
_MAX_REPEATED_CHARS = 10_000  # added by repeating arguments in an effect


class HandedOverActionError(ValueError):
    """Raised for an action that nobody can be asked about; the message says why in a sentence."""


@dataclass(frozen=True, slots=True)
class HandedOverAction:
    """An action that a program wants to run itself, as the program describes it.

    `effect`: a sentence with `{field}` for the arguments' fields. `does`: None counts as
    destructive, and the card says so. `schema`: the JSON Schema of the arguments, an object.
    """

    name: str
    title: str
    effect: str
    does: Effect | None = None
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})


def check_and_dump_action(action: HandedOverAction, tools: Registry, client: str = "") -> str:
    """Check a client's action and return the JSON that is stored with its call.

    Raises HandedOverActionError.
    """
    if not _NAME_PATTERN.fullmatch(action.name):
        raise HandedOverActionError("its name is 1 to 64 letters, digits and underscores")
    if tools.get(action.name) is not None or action.name == ASK_PERSON.name:
        raise HandedOverActionError(f"{action.name} is a tool of Countersign's own: ask for that")
    for field_label, text, max_chars in (
        ("title", action.title, _MAX_TITLE_CHARS),
        ("effect", action.effect, _MAX_EFFECT_CHARS),
    ):
        if not text.strip() or len(text) > max_chars:
            raise HandedOverActionError(
                f"its {field_label} is a text of 1 to {max_chars} characters"
            )
    try:
        stored = asdict(action) | {"client": client}
        # raises for what is not JSON; the text below keeps the program's own order of fields
        canonical_json(stored)
        text = json.dumps(stored, ensure_ascii=False)
        action_tool = _build_action_tool(text)
    except (NonCanonicalValueError, SchemaError) as error:
        raise HandedOverActionError(str(error)) from None
    _check_template(action.effect, frozenset(action_tool.arguments.model_fields))
    return text


def check_effect_sentence_length(tool: Tool[Any], args: BaseModel) -> None:
    """Raise HandedOverActionError if an effect repeats over 10,000 characters of arguments."""
    if not tool.action:
        return
    names = [name for _, name, _, _ in Formatter().parse(tool.effect) if name is not None]
    longer = sum(
        (names.count(each) - 1) * len(str(getattr(args, each))) for each in dict.fromkeys(names)
    )
    if longer > _MAX_REPEATED_CHARS:
        raise HandedOverActionError(
            f"its effect repeats more than {_MAX_REPEATED_CHARS:,} characters"
        )


def load_action_tool(action: str) -> Tool[Any] | None:
    """Return the tool of a stored action; None if the action can no longer be read.

    Such a tool is shown, edited and handed out, but never called.
    """
    try:
        return _build_action_tool(action)
    except (SchemaError, ValueError, TypeError, KeyError):
        return None


@lru_cache(maxsize=512)
def _build_action_tool(action: str) -> Tool[Any]:
    stored = json.loads(action)
    stated_effect, schema = stored["does"], stored["schema"]
    does = Effect(stated_effect) if stated_effect else Effect.DESTRUCTIVE
    return Tool(
        name=stored["name"],
        title=stored["title"],
        effect=stored["effect"],
        does=does,
        arguments=build_argument_model(schema, stored["name"]),
        function=_refuse_to_run,
        description=stored["title"],
        risk=DEFAULT_RISK_BY_EFFECT[does],
        action=action,
        effect_source=EffectSource.BY_AUTHOR if stated_effect else EffectSource.BY_NOBODY,
    )


def _check_template(effect: str, fields: frozenset[str]) -> None:
    """Raise HandedOverActionError unless the effect names only fields.

    Formats and conversions of them are refused, too.
    """
    try:
        parts = list(Formatter().parse(effect))
    except ValueError as error:
        raise HandedOverActionError(f"its effect cannot be read ({error})") from None
    for _, name, form, conversion in parts:
        if name is not None and (name not in fields or form or conversion):
            raise HandedOverActionError(
                f"its effect names {name!r}, which is not a field of its arguments"
            )


def _refuse_to_run(_args: BaseModel, _context: ToolContext) -> NoReturn:
    raise ToolError("a program executes it itself")
