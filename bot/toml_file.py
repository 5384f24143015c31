"""Reads TOML files that people write, and reports errors with file, line and key. PURE.

The policy and the lists of databases and of MCP servers are such files.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

M = TypeVar("M", bound=BaseModel)
KeyPath = tuple[int | str, ...]
_WHOLE_NUMBER_TEXT = "write a whole number"
_NUMBER_TEXT = "write a number"
_TEXT_BY_ERROR_TYPE = {  # by Pydantic's error type, for the author of the file
    "missing": "is missing",
    "string_type": "write it in quotes",
    "bool_type": "write true or false",
    "bool_parsing": "write true or false",
    "list_type": "write a list, [ … ]",
    "model_type": "write a table",
    "int_type": _WHOLE_NUMBER_TEXT,
    "int_parsing": _WHOLE_NUMBER_TEXT,
    "int_from_float": _WHOLE_NUMBER_TEXT,
    "float_type": _NUMBER_TEXT,
    "float_parsing": _NUMBER_TEXT,
    "literal_error": "write {expected}",
    "enum": "write {expected}",
    "greater_than_equal": "write {ge} or more",
    "less_than_equal": "write {le} or less",
    "value_error": "{error}",
}
_TABLE_HEADER_PATTERN = re.compile(r"\s*(\[\[?)\s*([^\]\s]+)\s*\]")
_KEY_PATTERN = re.compile(r"""\s*["']?([^\s"'=.\[\]#]+)["']?\s*[=.]""")
_LINE_NUMBER_PATTERN = re.compile(r"\(at line (\d+)")


def unreadable_file_sentence(source: str, error: OSError | UnicodeDecodeError) -> str:
    """Return a sentence for the author of file `source`: why it cannot be read as text."""
    if isinstance(error, IsADirectoryError):
        return f"{source}: it is a folder; name a file in it"
    reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error.strerror)
    return f"{source}: {reason}; make it a readable text file"


class TomlFileError(ValueError):
    """Raised when a file that people write cannot be used.

    `problems` has one line each: file, line, key, what is wrong, what to do.
    """

    def __init__(self, what: str, source: str, problems: list[str]) -> None:
        """`what` names what the file `source` defines, such as "databases"."""
        self.problems = tuple(problems)
        super().__init__("\n  ".join([f"the {what} in {source} cannot be used:", *problems]))


class TomlSyntaxError(ValueError):
    """Raised for a text that is not TOML, or that Python does not read; `line` counts from 1."""

    def __init__(self, why: str, line: int) -> None:
        super().__init__(why)
        self.line = line


def parse_toml(text: str) -> dict[str, Any]:
    """Return the content of a TOML text; raises TomlSyntaxError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _LINE_NUMBER_PATTERN.search(str(error))
        line = int(found[1]) if found else text.rstrip().count("\n") + 1
        raise TomlSyntaxError(str(error), line) from None
    except RecursionError:
        why = "it is nested too deeply"
    except ValueError:
        why = "a number in it is too long"
    lines = text.split("\n")
    raise TomlSyntaxError(why, lines.index(max(lines, key=len)) + 1)


class FileProblems:
    """The problems found in one file, each with its line."""

    def __init__(self, source: str, text: str) -> None:
        """`source` is the file's name in messages."""
        self._source = source
        self._text = text
        self._places = TomlLineIndex(text)
        self._found: list[tuple[int, str]] = []  # pairs of line and sentence

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, loc: KeyPath, sentence: str) -> None:
        """Add a problem with the key at `loc`."""
        self.add_at_line(self.get_line(loc), f"{format_key_name(loc)}: {sentence}")

    def get_line(self, loc: KeyPath) -> int:
        """Return the line (from 1) of the key at `loc`."""
        return self._places.get_line(loc)

    def describe_key_location(self, loc: KeyPath) -> str:
        """Return where the key at `loc` is, for a message: file, line, key."""
        return f"{self._source}:{self._places.get_line(loc)}: {format_key_name(loc)}"

    def add_at_line(self, line: int, sentence: str) -> None:
        """Add a problem with a line (from 1)."""
        self._found.append((line, f"{self._source}:{line}: {sentence}"))

    def add_syntax_error(self, error: TomlSyntaxError) -> None:
        """Add that the text is not TOML."""
        self.add_at_line(error.line, f"this is not TOML: {error}; correct this line")

    def list_sentences(self) -> list[str]:
        """Return all problems by line: file, line, key, what is wrong, what to do."""
        return [sentence for _, sentence in sorted(self._found)]


def parse_tables_under_heading(
    text: str, heading: str, problems: FileProblems
) -> list[dict[str, Any]]:
    """Return the tables headed [[heading]]; the text may hold nothing else.

    What is wrong is added to `problems`.
    """
    written: dict[str, Any] = {}
    try:
        written = parse_toml(text)
    except TomlSyntaxError as error:
        problems.add_syntax_error(error)
    for key in written.keys() - {heading}:
        problems.add((key,), f"unknown key; {heading}s are headed [[{heading}]]")
    tables = written.get(heading, [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        problems.add((heading,), f"{heading}s are headed [[{heading}]], with two brackets")
        return []
    return tables


def validate_toml_table(
    model: type[M], entry: Any, place: KeyPath, problems: FileProblems, forms: Mapping[str, str]
) -> M | None:
    """Return the table at `place` as a model; None if it is invalid.

    What is wrong is added to `problems`. `forms`: by key, how to write a text that has a pattern.
    """
    try:
        return model.model_validate(entry)
    except ValidationError as error:
        for each in error.errors(include_input=False, include_url=False):
            problems.add((*place, *each["loc"]), _validation_error_sentence(each, model, forms))
    return None


def _validation_error_sentence(
    error: ErrorDetails, model: type[BaseModel], forms: Mapping[str, str]
) -> str:
    if error["type"] == "extra_forbidden":
        return unknown_key_sentence(error["loc"], model)
    if error["type"] == "string_pattern_mismatch":
        return forms.get(str(error["loc"][0]), "write a plain name")
    return describe_invalid_value(error, {})


def describe_invalid_value(error: ErrorDetails, own: Mapping[str, str]) -> str:
    """Return what to write in place of a wrong value, for a Pydantic error about it.

    `own`: the file's own sentences, by the type of the error.
    """
    sentence = own.get(error["type"]) or _TEXT_BY_ERROR_TYPE.get(error["type"])
    return sentence.format(**error.get("ctx", {})) if sentence else error["msg"]


class TomlLineIndex:
    """The lines of a TOML text, each with the table it is in and the key that begins there.

    tomllib does not report lines, so the text is searched for them; for a key that is not found,
    the nearest heading or line 1 is used.
    """

    def __init__(self, text: str) -> None:
        self._lines: list[KeyPath] = []
        table: KeyPath = ()
        header_counts: Counter[str] = Counter()
        quote = ""
        for line in text.split("\n"):
            here = table
            if quote:  # in a string of several lines, nothing is a key
                quote = "" if quote in line else quote
            elif header := _TABLE_HEADER_PATTERN.match(line):
                name = header[2]
                nested = tuple(name.split("."))
                table = here = (name, header_counts[name]) if header[1] == "[[" else nested
                header_counts[name] += 1
            elif key := _KEY_PATTERN.match(line):
                here = (*table, key[1])
                quote = next((each for each in ('"""', "'''") if line.count(each) % 2), "")
            self._lines.append(here)

    def get_line(self, loc: KeyPath) -> int:
        """Return the line (from 1) where the table or key at `loc` begins.

        ("rule", 2, "deadline") is that key in the third [[rule]].
        """
        while loc:
            if loc in self._lines:
                return self._lines.index(loc) + 1
            loc = loc[:-1]
        return 1


def format_key_name(loc: KeyPath) -> str:
    """Return the path of a key as the file's author would name it, such as "rule 2 deadline"."""
    if len(loc) > 1 and isinstance(loc[1], int):
        return " ".join([str(loc[0]), str(loc[1] + 1), *(str(each) for each in loc[2:3])])
    return f"[{loc[0]}] {loc[1]}" if len(loc) > 1 else str(loc[0])


def nearest_name_hint(wrong: Iterable[str], there: Collection[str]) -> str:
    """Return " (did you mean X?)" for a name in `there` close to a wrong one; "" if none is."""
    close = [each for word in wrong for each in get_close_matches(word, list(there), 1)]
    return f" (did you mean {close[0]}?)" if close else ""


def unknown_key_sentence(loc: KeyPath, model: type[BaseModel]) -> str:
    """Return the message for a key that `model` does not have, with the nearest that it has."""
    near = nearest_name_hint([str(loc[-1])], _list_keys_at(loc[:-1], model))
    return f"unknown key{near}; correct or remove it"


def _list_keys_at(loc: KeyPath, model: type[BaseModel]) -> list[str]:
    """Return the keys allowed in the table at `loc`; none if no model describes that table."""
    is_name = False  # whether the next part is a name chosen by the file's author
    for part in loc:
        if isinstance(part, int) or is_name:
            is_name = False
            continue
        fields = {each.alias or name: each for name, each in model.model_fields.items()}
        inner = _find_model(fields[part].annotation) if part in fields else None
        if inner is None:
            return []
        model, is_name = inner, get_origin(fields[part].annotation) is dict
    return [each.alias or name for name, each in model.model_fields.items()]


def _find_model(annotation: Any) -> type[BaseModel] | None:
    """Return the model in an annotation, also inside a list or beside None; None for none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_find_model, get_args(annotation))), None)


def convert_toml_to_json(text: str) -> str:
    """Return a TOML text as JSON, with dates and times in ISO 8601.

    Raises TomlSyntaxError.
    """
    return json.dumps(parse_toml(text), default=lambda each: each.isoformat(), indent=2)


def parse_strict_json(text: str) -> dict[str, Any]:
    """Return the JSON object that a text holds, as strict as TOML is about repeated keys.

    Raises ValueError, also for a repeated key, for NaN or Infinity, and for what is not an object.
    """

    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key is given twice in the same object")
        return found

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not a JSON value")

    found = json.loads(text, object_pairs_hook=table, parse_constant=refuse)
    if not isinstance(found, dict):
        raise ValueError("it must be an object")
    return found
