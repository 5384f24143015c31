"""What has to be true of a tool before it is one: its function, fields, sentences and preview.

Each check raises TypeError or ValueError with the tool's name and what is wrong.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from string import Formatter
from typing import Any, get_type_hints

from pydantic import BaseModel

REASON_FIELD = "reason_for_approver"
_STEP = re.compile(r"\.(\w+)")


def argument_model(function: Callable[..., Any], name: str) -> type[BaseModel]:
    """Return the Pydantic model with which a tool's function annotates its first parameter."""
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) != 2:
        raise TypeError(f"tool {name}: the function takes (args, context)")
    model = _hints(function).get(parameters[0])
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise TypeError(f"tool {name}: the first parameter must be annotated with a Pydantic model")
    return model


def check_fields(tool_name: str, model: type[BaseModel], effect: str, **named: set[str]) -> None:
    """Refuse a model with a reserved field, and parameters that name fields it has not."""
    fields = set(model.model_fields)
    if REASON_FIELD in fields:
        raise ValueError(f"tool {tool_name}: the field name {REASON_FIELD} is reserved")
    for label, names in named.items():
        if unknown := names - fields:
            raise ValueError(
                f"tool {tool_name}: {label} names unknown fields: {', '.join(sorted(unknown))}"
            )
    _check_effect(tool_name, model, effect)


def _check_effect(tool_name: str, model: type[BaseModel], effect: str) -> None:
    """Refuse a sentence that is no template, or names fields that the model has not."""
    try:
        named = list(_named(effect))
    except ValueError as error:
        raise ValueError(f"tool {tool_name}: effect is no template: {error}") from error
    unknown = [each for each in named if not _is_there(model, each)]
    if unknown:
        names = ", ".join(each or "{}" for each in unknown)
        raise ValueError(f"tool {tool_name}: effect names unknown fields: {names}")


def check_functions(
    tool_name: str,
    model: type[BaseModel],
    preview: Callable[..., Any] | None,
    outcome: Callable[..., Any] | None,
    step: Callable[..., Any] | None,
) -> None:
    """Refuse a preview, an outcome or a step sentence that cannot be made for this tool."""
    if preview is not None:
        _check_preview(tool_name, model, preview)
    if outcome is not None:
        _check_outcome(tool_name, outcome)
    if step is not None:
        _check_step(tool_name, step)


def _check_preview(tool_name: str, model: type[BaseModel], preview: Callable[..., Any]) -> None:
    """Refuse a preview that cannot be called with this tool's arguments and a context."""
    try:
        inspect.signature(preview).bind(None, None)
    except TypeError as error:
        raise TypeError(f"tool {tool_name}: the preview takes (args, context)") from error
    first = next(iter(inspect.signature(preview).parameters), "")
    try:
        wanted = _hints(preview).get(first)
    except (NameError, TypeError):  # a name that only a type checker sees, or no plain function
        return
    if isinstance(wanted, type) and issubclass(wanted, BaseModel) and not issubclass(model, wanted):
        raise TypeError(
            f"tool {tool_name}: the preview takes {wanted.__name__}, the tool {model.__name__}"
        )


def _check_outcome(tool_name: str, outcome: Callable[..., Any]) -> None:
    """Refuse an outcome sentence that cannot be made from the arguments and the result."""
    try:
        inspect.signature(outcome).bind(None, None)
    except TypeError as error:
        raise TypeError(f"tool {tool_name}: the outcome takes (args, result)") from error


def _check_step(tool_name: str, step: Callable[..., Any]) -> None:
    """Refuse a step sentence that cannot be made from the arguments."""
    try:
        inspect.signature(step).bind(None)
    except TypeError as error:
        raise TypeError(f"tool {tool_name}: the step takes (args)") from error


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    known = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    return get_type_hints(function, localns=dict(known))


def _named(template: str) -> Iterator[str]:
    """The fields in a template, those within a format too."""
    for _, name, spec, _ in Formatter().parse(template):
        if name is not None:
            yield name
            yield from _named(spec or "")


def _is_there(model: type[BaseModel], name: str) -> bool:
    first = re.split(r"[.\[]", name, maxsplit=1)[0]
    field = model.model_fields.get(first)
    if field is None:
        return False
    step, inner = _STEP.match(name, len(first)), field.annotation
    if step is None or not (isinstance(inner, type) and issubclass(inner, BaseModel)):
        return True
    return hasattr(inner, step[1]) or _is_there(inner, name[step.start(1) :])
