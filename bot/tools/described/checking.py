"""Normalises JSON Schemas that others wrote, and checks values against them in bounded time.

No error message holds a value, since it may be a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, datetime, time
from fractions import Fraction
from functools import cache, partial
from itertools import chain, islice
from time import thread_time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from bot.policy.condition_values import UnknownValueError, compile_pattern
from bot.tools.declared_values import rewrite_pattern_for_re2
from bot.tools.registration import Path, Schema, replace_inner_schemas

if TYPE_CHECKING:
    import jsonschema

MAX_CHECK_SECONDS = 0.2  # processor time per value; also for a whole schema when it is read
# for stored arguments, which were checked before: an approved call must not be refused
# because a second check took a little longer
MAX_RECHECK_SECONDS = 2.0
_patience: ContextVar[float] = ContextVar("seconds of processor", default=MAX_CHECK_SECONDS)


@contextmanager
def allow_longer_schema_checks() -> Iterator[None]:
    """Allow schema checks more time inside the block, for values that are already stored."""
    token = _patience.set(MAX_RECHECK_SECONDS)
    try:
        yield
    finally:
        _patience.reset(token)


# Converts a JSON Schema to draft 2020-12, and checks its size and depth. Pure.
MAX_SCHEMA_CHARS = 100_000
MAX_SCHEMA_DEPTH = 20  # nested schemas
# about drafts or for programs: no value can violate these
_IGNORED_KEYWORDS = ("$schema", "$comment", "$anchor", "$vocabulary")
_REFUSED_KEYWORDS = {
    "$dynamicRef": "a reference that depends on the way to it",
    "$recursiveRef": "a reference that depends on the way to it",
    "unevaluatedProperties": "what can take endless time to check",
    "unevaluatedItems": "what can take endless time to check",
}


class UnfitSchemaError(ValueError):
    """Raised for a schema that cannot be used for arguments; the message says why."""


def dump_schema(schema: Mapping[str, Any]) -> str:
    """Return the schema as JSON text, keeping the order of its keys.

    Raises UnfitSchemaError if it is no JSON object, or too large.
    """
    try:
        text = json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnfitSchemaError("The schema is not JSON.") from error
    if not isinstance(schema, Mapping):
        raise UnfitSchemaError("The schema is not an object.")
    if len(text) > MAX_SCHEMA_CHARS:
        most = f"at most {MAX_SCHEMA_CHARS:,} are taken"
        raise UnfitSchemaError(f"The schema has {len(text):,} characters; {most}.")
    return text


def normalise_schema(text: str) -> Schema:
    """Return the schema in the form of draft 2020-12, with its references checked.

    Raises UnfitSchemaError.
    """
    schema = json.loads(text)
    schema.pop("$id", None)
    older, newer = schema.get("definitions"), schema.get("$defs", {})
    if isinstance(older, dict) and isinstance(newer, dict):  # others are refused by the check below
        del schema["definitions"]
        schema["$defs"] = {**older, **newer}
    reader = _SchemaNormaliser()
    normalised: Schema = reader.normalise_node(schema, ())
    for each in reader.references:
        if parse_schema_reference(each) not in reader.places:
            raise UnfitSchemaError(f"The schema refers to {each[:100]}, which is not in it.")
    return normalised


def parse_schema_reference(reference: str) -> Path:
    """Return a reference within the schema as the keys that lead to its target from the top."""
    steps = reference[1:].split("/")[1:]
    return tuple(unquote(each).replace("~1", "/").replace("~0", "~") for each in steps)


def get_referenced_schema(root: Mapping[str, Any], reference: str) -> Any:
    """Return the part of the schema that a checked reference points to."""
    found: Any = root
    for step in parse_schema_reference(reference):
        found = found[int(step)] if isinstance(found, list) else found[step]
    return found


def compile_re2_pattern(text: str) -> Any:
    """Return a pattern from a schema, compiled with RE2, which searches in bounded time.

    Raises UnfitSchemaError.
    """
    try:
        return compile_pattern(rewrite_pattern_for_re2(text))
    except UnknownValueError:
        why = "is none that can be checked in bounded time"
        raise UnfitSchemaError(f"The pattern {text[:100]} {why}.") from None


class _SchemaNormaliser:
    """Reads one schema, and collects the paths of its parts and its references."""

    def __init__(self) -> None:
        self.places: set[Path] = set()
        self.references: list[str] = []

    def normalise_node(self, node: Any, path: Path, depth: int = 0) -> Any:
        if isinstance(node, bool):
            self.places.add(path)
            return ({} if node else {"not": {}}) if depth else node
        if not isinstance(node, dict):
            raise UnfitSchemaError("A part of the schema is not a schema.")
        if depth > MAX_SCHEMA_DEPTH:
            raise UnfitSchemaError(
                f"The schema is nested more than {MAX_SCHEMA_DEPTH} levels deep."
            )
        self.places.add(path)
        known = {key: each for key, each in node.items() if key not in _IGNORED_KEYWORDS}
        kept = _replace_old_keywords(known)
        self._check_node(kept, depth)
        return replace_inner_schemas(
            kept, lambda each, steps: self.normalise_node(each, (*path, *steps), depth + 1)
        )

    def _check_node(self, node: Schema, depth: int) -> None:
        for key, what in _REFUSED_KEYWORDS.items():
            if key in node:
                raise UnfitSchemaError(f"The schema has {key}, {what}.")
        if depth and "$id" in node and isinstance(node["$id"], str):
            raise UnfitSchemaError("A part of the schema has a name of its own ($id).")
        for expression in _list_patterns(node):
            compile_re2_pattern(expression)
        if (reference := node.get("$ref")) is None:
            return
        if reference == "#" or (isinstance(reference, str) and reference.startswith("#/")):
            node["$ref"] = reference = re.sub(r"^#/definitions/", "#/$defs/", reference)
            self.references.append(reference)
            return
        what = "another document, and none is fetched"
        raise UnfitSchemaError(f"The schema refers to {str(reference)[:100]}: {what}.")


def _list_patterns(node: Schema) -> Iterator[str]:
    if isinstance(node.get("pattern"), str):
        yield node["pattern"]
    if isinstance(node.get("patternProperties"), dict):
        yield from node["patternProperties"]


def _replace_old_keywords(node: Schema) -> Schema:
    """Return a schema node with the keywords of earlier drafts replaced by today's."""
    if isinstance(node.get("items"), list):
        node["prefixItems"] = node.pop("items")
        if "additionalItems" in node:
            node["items"] = node.pop("additionalItems")
    if isinstance(node.get("dependencies"), dict):
        for key, each in node.pop("dependencies").items():
            name = "dependentRequired" if isinstance(each, list) else "dependentSchemas"
            if isinstance(node.setdefault(name, {}), dict):  # otherwise it is refused for that
                node[name][key] = each
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        is_old = isinstance(node.get(exclusive), bool)
        if is_old and node.pop(exclusive) and bound in node:
            node[exclusive] = node.pop(bound)
    return node


MAX_ERRORS = 20
MAX_CHECK_STEPS = 20_000  # references and alternatives tried for one value
MAX_CHECK_WORK = 5_000_000  # for one value: KEYWORD_WORK for each keyword that is checked, …
KEYWORD_WORK = 4  # … and 1 for each item that the keyword lists
Loc = tuple[int | str, ...]
Keyword = Callable[[Any, Any, Any, Any], Any]
CHECK_LIMIT_ERROR = PydanticCustomError(
    "schema_effort", "This is too large or nested to be checked"
)
_left: ContextVar[list[int]] = ContextVar("steps left")
_ends: ContextVar[float] = ContextVar("when the processor's time is over")


class SchemaCheckLimitError(Exception):
    """Raised when checking a value would take too long."""


# ArithmeticError: from numbers too large to compute with
UNCHECKABLE_ERRORS = (SchemaCheckLimitError, RecursionError, ArithmeticError)


class SchemaChecker:
    """Checks values against one schema."""

    def __init__(self, schema: Schema) -> None:
        """Prepare a normalised `schema`; raises UnfitSchemaError if it is not valid."""
        import jsonschema
        from referencing import Registry

        try:
            jsonschema.Draft202012Validator.check_schema(schema)
        except jsonschema.SchemaError as error:
            where = "/".join(map(str, error.absolute_path)) or "its top"
            raise UnfitSchemaError(f"The schema is not valid at {where[:100]}.") from error
        except RecursionError as error:
            raise UnfitSchemaError("The schema is nested too deep.") from error
        kind, formats = _build_validator_class(), _build_format_checker()
        self.schema = schema
        self._validator = kind(schema, registry=Registry(), format_checker=formats)
        # for all parts of the schema together
        self._left_for_nulls = [MAX_CHECK_STEPS, MAX_CHECK_WORK]
        self._seconds_for_nulls = MAX_CHECK_SECONDS

    def is_null_allowed(self, part: Any) -> bool:
        """Return whether a part of the schema accepts null; UnfitSchemaError if that takes long."""
        begun = thread_time()
        try:
            with limit_checks(self._left_for_nulls, self._seconds_for_nulls):
                return self.accepts(part, None)
        except UNCHECKABLE_ERRORS as error:
            raise UnfitSchemaError("The schema could take endless time to check.") from error
        finally:
            self._seconds_for_nulls -= thread_time() - begun

    def accepts(self, part: Any, value: Any) -> bool:
        """Return whether a part of the schema accepts a value; call it inside `limit_checks`."""
        return next(self._validator.evolve(schema=part).iter_errors(value), None) is None

    def check(self, title: str, value: Any) -> None:
        """Raise ValidationError, with each error's path, if the value does not fit the schema."""
        if wrong := self._list_errors(value):
            raise ValidationError.from_exception_data(title, wrong)

    def _list_errors(self, value: Any) -> list[InitErrorDetails]:
        """Return the errors of a value, or that it would take too long to find them."""
        try:
            with limit_checks():
                errors = islice(self._validator.iter_errors(value), MAX_ERRORS)
                found = list(
                    islice(chain.from_iterable(map(_convert_schema_error, errors)), MAX_ERRORS)
                )
        except UNCHECKABLE_ERRORS:
            return [InitErrorDetails(type=CHECK_LIMIT_ERROR, loc=(), input=value)]
        return list({(each["loc"], str(each["type"])): each for each in found}.values())


@contextmanager
def limit_checks(left: list[int] | None = None, seconds: float | None = None) -> Iterator[None]:
    """Limit what checks inside the block may take: steps, work, and seconds of this thread."""
    token = _left.set([MAX_CHECK_STEPS, MAX_CHECK_WORK] if left is None else left)
    ends = _ends.set(thread_time() + (_patience.get() if seconds is None else seconds))
    try:
        yield
    finally:
        _left.reset(token)
        _ends.reset(ends)


@cache
def _build_validator_class() -> Any:
    """Return a validator class for draft 2020-12 whose keywords take bounded time."""
    from jsonschema import Draft202012Validator, validators

    keywords: dict[str, Keyword] = {
        "pattern": _check_pattern,
        "patternProperties": _check_pattern_properties,
        "additionalProperties": _check_additional_properties,
        "uniqueItems": _check_unique_items,
        "multipleOf": _check_multiple_of,
    }
    every = {**Draft202012Validator.VALIDATORS, **keywords}
    trying = ("$ref", "anyOf", "oneOf", "allOf")
    keywords = {name: _limit_work(each, tries=name in trying) for name, each in every.items()}
    extend: Any = validators.extend  # it has no type hints
    validator_class = extend(Draft202012Validator, keywords)
    descend = validator_class.descend

    def counted_descent(validator: Any, *args: Any, **options: Any) -> Iterator[Any]:
        spend_work(1)  # also for inner values without any keyword
        yield from descend(validator, *args, **options)

    validator_class.descend = counted_descent
    return validator_class


def _limit_work(keyword: Keyword, *, tries: bool) -> Keyword:
    def bounded(validator: Any, said: Any, value: Any, schema: Any) -> Any:
        if tries:
            left = _left.get()
            left[0] -= len(said) if isinstance(said, list) else 1
            if left[0] < 0:
                raise SchemaCheckLimitError
        spend_work(KEYWORD_WORK + (len(said) if isinstance(said, list | dict) else 0))
        return keyword(validator, said, value, schema)

    return bounded


def spend_work(much: int) -> None:
    """Count the work done; raise an error when a value has used up its work or time."""
    left = _left.get()
    left[1] -= much
    if left[1] < 0 or thread_time() > _ends.get():
        raise SchemaCheckLimitError


def _check_pattern(_validator: Any, said: str, value: Any, _schema: Any) -> Iterator[Any]:
    if isinstance(value, str) and not compile_re2_pattern(said).search(value):
        yield _build_refusal()


def _check_pattern_properties(
    validator: Any, said: Mapping[str, Any], value: Any, _schema: Any
) -> Iterator[Any]:
    for each, schema in said.items() if isinstance(value, dict) else ():
        spend_work(len(value))
        for name, inner in value.items():
            if compile_re2_pattern(each).search(name):
                yield from validator.descend(inner, schema, path=name, schema_path=each)


def _check_additional_properties(
    validator: Any, keyword_value: Any, value: Any, schema: Mapping[str, Any]
) -> Iterator[Any]:
    properties = schema.get("properties", {})
    patterns = [compile_re2_pattern(each) for each in schema.get("patternProperties", ())]
    for name in list(value) if isinstance(value, dict) else ():
        spend_work(len(patterns))
        if name in properties or any(each.search(name) for each in patterns):
            continue
        if keyword_value is False:
            refused = _build_refusal()
            refused.path.appendleft(name)
            yield refused
        else:
            yield from validator.descend(value[name], keyword_value, path=name)


def _check_unique_items(_validator: Any, said: Any, value: Any, _schema: Any) -> Iterator[Any]:
    if said and isinstance(value, list):
        different = set()
        for each in value:
            spend_work(1)
            different.add(json.dumps(each, sort_keys=True))
        if len(different) < len(value):
            yield _build_refusal()


def _check_multiple_of(_validator: Any, said: Any, value: Any, _schema: Any) -> Iterator[Any]:
    """Check `multipleOf` with exact decimals: 19.99 is a multiple of 0.01, though not as floats."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        whole, step = (Fraction(repr(e) if isinstance(e, float) else e) for e in (value, said))
        if whole % step:
            yield _build_refusal()


def _build_refusal() -> Any:
    from jsonschema import ValidationError as Refusal

    return Refusal("refused")


def _convert_schema_error(error: jsonschema.ValidationError) -> Iterator[InitErrorDetails]:
    """Yield an error of the jsonschema library as errors in pydantic's form."""
    if error.context:
        from jsonschema.exceptions import best_match

        nearest = best_match([error])
        if nearest is not None and nearest is not error:
            yield from _convert_schema_error(nearest)
            return
    loc = tuple(error.absolute_path)
    value: Any = error.instance
    keyword_value: Any = error.validator_value
    if error.validator == "required":
        for name in keyword_value:
            if name not in value:
                yield InitErrorDetails(type="missing", loc=(*loc, name), input=value)
        return
    if error.validator in _PYDANTIC_ERROR_BY_KEYWORD and (
        isinstance(keyword_value, str) or abs(keyword_value) < MAX_PYDANTIC_BOUND
    ):
        kind, key = _PYDANTIC_ERROR_BY_KEYWORD[error.validator]
        # a schema may give a length as 5.0, and pydantic's messages take whole numbers only
        context = {key: int(keyword_value) if key.endswith("length") else keyword_value}
        if kind in ("too_short", "too_long"):
            context |= {"field_type": "List", "actual_length": len(value)}
        yield InitErrorDetails(type=kind, loc=loc, input=value, ctx=context)
        return
    if error.validator in ("additionalProperties", "propertyNames"):
        yield InitErrorDetails(type="extra_forbidden", loc=loc, input=value)
        return
    kind, sentence = _describe_violation(str(error.validator), keyword_value)
    escaped = sentence.replace("{", "(").replace("}", ")")  # pydantic would fill in braces
    yield InitErrorDetails(type=PydanticCustomError(kind, escaped), loc=loc, input=value)


MAX_PYDANTIC_BOUND = 2**63  # pydantic's messages take no larger bounds
_PYDANTIC_ERROR_BY_KEYWORD = {
    "minLength": ("string_too_short", "min_length"),
    "maxLength": ("string_too_long", "max_length"),
    "pattern": ("string_pattern_mismatch", "pattern"),
    "minimum": ("greater_than_equal", "ge"),
    "maximum": ("less_than_equal", "le"),
    "exclusiveMinimum": ("greater_than", "gt"),
    "exclusiveMaximum": ("less_than", "lt"),
    "multipleOf": ("multiple_of", "multiple_of"),
    "minItems": ("too_short", "min_length"),
    "maxItems": ("too_long", "max_length"),
}
_TYPE_LABELS = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def _describe_violation(keyword: str, keyword_value: Any) -> tuple[Any, str]:
    """Return the type and the sentence of an error for which pydantic has none of its own."""
    match keyword:
        case "type":
            types = [keyword_value] if isinstance(keyword_value, str) else keyword_value
            labels = " or ".join(_TYPE_LABELS.get(each, str(each)) for each in types)
            return "schema_type", f"Input should be {labels}"
        case "enum" | "const":
            options = keyword_value if keyword == "enum" else [keyword_value]
            choices = ", ".join(json.dumps(each, ensure_ascii=False)[:60] for each in options[:20])
            return "schema_choice", f"Input should be one of: {choices}"
        case "format":
            return "schema_format", f"Input should have the form of {keyword_value}"
        case "uniqueItems":
            return "schema_unique", "List should hold each item only once"
        case "dependentRequired":
            return "schema_dependent", "Something that belongs to it is missing"
    return "schema_form", "Input should be one of the forms that are allowed here"


@cache
def _build_format_checker() -> Any:
    """Return a checker for the formats that are enforced; all other formats are ignored."""
    from jsonschema import FormatChecker

    checker = FormatChecker(formats=())
    for name, check in _FORMAT_CHECKS.items():
        checker.checks(name, raises=ValueError)(partial(_has_format, check))
    return checker


def _has_format(check: Callable[[str], object], value: Any) -> bool:
    """Whether a value has a format, or is no text; an error that `check` raises means no."""
    return not isinstance(value, str) or check(value) is not False


def _is_email(value: str) -> bool:
    name, _, domain = value.rpartition("@")
    return bool(name and domain) and not any(each.isspace() for each in value)


def _is_uri(value: str) -> bool:
    found = urlsplit(value)
    there = bool(found.scheme and (found.netloc or found.path))
    return there and not any(each.isspace() for each in value)


_FORMAT_CHECKS: dict[str, Callable[[str], object]] = {
    "date": date.fromisoformat,
    "date-time": datetime.fromisoformat,
    "time": time.fromisoformat,
    "email": _is_email,
    "uri": _is_uri,
}
