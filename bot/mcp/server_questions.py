"""A running call of a server's tool: its time-out, its progress, and the server's questions.

While a person answers, the server's time-out is paused; people have a time-out of their own.
"""

from __future__ import annotations

import logging
import math
import re
import threading
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import anyio
from anyio import to_thread
from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult
from pydantic import ValidationError

from bot.mcp.server_file import Server
from bot.tools import ElicitationAnswer, ElicitationOutcome, ElicitationPort, ElicitationRequest
from bot.tools.invisible_characters import is_hidden_character
from bot.tools.person_question import MAX_FIELDS, AnswerField, AnswerKind, AskPerson

# Converts a server's elicitation to questions for a person, and the answers back.

MAX_QUESTIONS = 3  # per elicitation
MAX_VALUE_NAME_CHARS = 200
Content = dict[str, str | int | float | bool | list[str] | None]
_CAMEL_CASE_PATTERN = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SECRET_WORDS_PATTERN = re.compile(
    r"pass ?(?:word|wort|phrase|code)|kennwort|secret|geheim|credential|zugangsdaten"
    r"|(?:api|access|private|signing|ssh) ?key|\btoken\b|\b(?:pin|tan|otp|cvv|cvc|ssn)\b"
    r"|card number|credit card|kreditkarte|social security|one ?time code"
)
# A caution such as "do not tell us your phone number, PIN" asks for no secret. It ends at the next
# verb, and each of its words has a limited length.
_CAUTION_PATTERN = re.compile(
    r"\b(?:(?:do not|don't|never) (?:enter|give|include|put|send|share|state|tell|type|use|write) "
    r"(?:(?!(?:and|but|enter|give|just|put|send|tell|then|type|write)\b)\w{1,20},? ){0,8}"
    r"|nicht (?:\w{1,20} ){1,4}|kein(?:e[nmrs]?)? )"
    r"(?:pass ?(?:words?|wort|wörter|phrases?|codes?)|secrets?|tokens?|pins?|tans?)\b",
    re.I,
)
_BOUND_KEYWORDS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
_TEXT_FORMATS = {
    "email": (re.compile(r"[^@\s]+@[^@\s]+"), "an e-mail address"),
    "uri": (re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+"), "an address such as https://…"),
    "date-time": (
        re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?"),
        "a date and time such as 2026-05-04T10:00Z",
    ),
}


class UnaskableQuestionError(Exception):
    """Raised if a person may not or cannot be asked a question; the text says why."""


class InvalidAnswerError(Exception):
    """Raised if the server would not accept an answer; the text tells the person what it takes."""


@dataclass(frozen=True, slots=True)
class _RequestedValue:
    name: str
    schema: Mapping[str, Any]
    answer_field: AnswerField
    option_values: Mapping[str, str]  # the server's value for each option

    def convert_answer(self, answer: Any) -> Any:
        """Return an answer in the form that the server accepts; raises InvalidAnswerError."""
        match self.answer_field.kind:
            case AnswerKind.NUMBER:
                return self._convert_number(Decimal(str(answer)))
            case AnswerKind.CHOICE:
                return self.option_values[answer]
            case AnswerKind.TEXT if self.schema.get("type") == "array":
                return self._convert_choices(str(answer))
            case AnswerKind.TEXT:
                return self._convert_text(str(answer))
        return answer

    def _convert_number(self, given: Decimal) -> int | float:
        least, most = self.schema.get("minimum"), self.schema.get("maximum")
        if self.schema.get("type") == "integer" and given != int(given):
            raise self._build_invalid_answer_error("a whole number")
        if least is not None and given < Decimal(str(least)):
            raise self._build_invalid_answer_error(f"{least} at least")
        if most is not None and given > Decimal(str(most)):
            raise self._build_invalid_answer_error(f"{most} at most")
        return int(given) if given == int(given) else float(given)

    def _convert_text(self, given: str) -> str:
        least, most = self.schema.get("minLength", 0), self.schema.get("maxLength")
        if len(given) < least:
            raise self._build_invalid_answer_error(f"{least} characters at least")
        if most is not None and len(given) > most:
            raise self._build_invalid_answer_error(f"{most} characters at most")
        form, called = _TEXT_FORMATS.get(str(self.schema.get("format")), (None, ""))
        if form is not None and not form.fullmatch(given):
            raise self._build_invalid_answer_error(called)
        return given

    def _convert_choices(self, given: str) -> list[str]:
        known = {label.casefold(): value for label, value in self.option_values.items()}
        chosen = [each.strip().casefold() for each in given.split(",") if each.strip()]
        least, most = self.schema.get("minItems", 0), self.schema.get("maxItems", len(known))
        options = ", ".join(self.option_values)
        if not set(chosen) <= set(known):
            raise self._build_invalid_answer_error(f"some of {options}, with commas between")
        if not least <= len(set(chosen)) <= most:
            raise self._build_invalid_answer_error(f"{least} to {most} of {options}")
        return [known[each] for each in dict.fromkeys(chosen)]

    def _build_invalid_answer_error(self, takes: str) -> InvalidAnswerError:
        return InvalidAnswerError(f"“{self.answer_field.label}” has to be {takes}.")


class Elicitation:
    """One question of an MCP server (an elicitation): a message and the values that it asks for."""

    def __init__(self, message: str, schema: Mapping[str, Any]) -> None:
        """`schema`: an object schema of plain values, as in MCP. Raises UnaskableQuestionError."""
        properties, required = schema.get("properties"), schema.get("required") or ()
        if not isinstance(properties, Mapping) or not properties:
            raise UnaskableQuestionError("it wants no value")
        if len(properties) > MAX_QUESTIONS * MAX_FIELDS:
            max_values = MAX_QUESTIONS * MAX_FIELDS
            raise UnaskableQuestionError(f"it wants more than {max_values} values")
        try:
            self._fields = [
                _build_requested_value(name, _normalize_schema(each), optional=name not in required)
                for name, each in properties.items()
            ]
        except (ValidationError, TypeError, AttributeError, KeyError, ValueError) as error:
            raise UnaskableQuestionError("it wants a value that nobody can be asked for") from error
        self._message = message.strip()
        list(self.build_questions())  # raises if a question is too long or cannot be asked
        labels = [each.answer_field.label for each in self._fields]
        descriptions = [
            _CAUTION_PATTERN.sub("", _describe_requested_value(each)) for each in self._fields
        ]
        searched_text = _normalize_text(" ".join([message, *properties, *labels, *descriptions]))
        if secret := _SECRET_WORDS_PATTERN.search(searched_text):
            raise UnaskableQuestionError(f"it wants what may be a secret ({secret[0]})")

    def build_questions(self, wrong: str = "") -> Iterator[tuple[AskPerson, list[_RequestedValue]]]:
        """Yield the questions to ask people in order, each with its fields.

        `wrong`: what was wrong with the last answer. Raises UnaskableQuestionError.
        """
        parts = [
            self._fields[first : first + MAX_FIELDS]
            for first in range(0, len(self._fields), MAX_FIELDS)
        ]
        for number, fields in enumerate(parts, start=1):
            position = f"({number} of {len(parts)})" if len(parts) > 1 else ""
            descriptions = map(_describe_requested_value, fields)
            text = " ".join(filter(None, [wrong, self._message, position, *descriptions]))
            try:
                yield _build_question(text, fields), fields
            except ValidationError as error:
                why = "it says too much, or too little, for a question"
                raise UnaskableQuestionError(why) from error


def convert_answers_for_server(part: list[_RequestedValue], answers: Mapping[str, Any]) -> Content:
    """Return the answers to one question, by the server's names; raises InvalidAnswerError."""
    found: Content = {}
    for number, each in enumerate(part):
        if (value := answers.get(f"a{number}")) is not None:
            found[each.name] = each.convert_answer(value)
    return found


def _build_question(text: str, part: list[_RequestedValue]) -> AskPerson:
    if len(part) == 1 and not part[0].answer_field.optional:
        one = part[0].answer_field
        return AskPerson(
            question=text, kind=one.kind, options=one.options, suggestion=one.suggestion
        )
    fields = [each.answer_field for each in part]
    return AskPerson(question=text, kind=AnswerKind.FORM, fields=fields)


def _normalize_schema(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without its null values; ValueError if a bound is no number."""
    found = {key: each for key, each in said.items() if each is not None}
    for key in _BOUND_KEYWORDS:
        bound = found.get(key, 0)
        is_number = isinstance(bound, int | float) and not isinstance(bound, bool)
        if not is_number or not -math.inf < bound < math.inf:
            raise ValueError(f"{key} is not a number")
    return found


def _build_requested_value(
    name: str, schema: Mapping[str, Any], *, optional: bool
) -> _RequestedValue:
    """Return the form field for one value that a server asks for.

    Raises ValueError, or other errors if the schema is broken.
    """
    if len(name) > MAX_VALUE_NAME_CHARS:
        raise ValueError("its name is too long")
    label = " ".join(str(schema.get("title") or _normalize_text(name).capitalize()).split())
    values = _parse_options(schema)
    kind = _choose_answer_kind(schema, values)
    if kind is AnswerKind.TEXT and values:
        label = f"{label} (some of {', '.join(values)})"
    options = list(values) if kind is AnswerKind.CHOICE else []
    default = schema.get("default")
    if kind is AnswerKind.CHOICE:
        default = next((option for option, value in values.items() if value == default), None)
    if isinstance(default, list):
        default = ", ".join(option for option, value in values.items() if value in default)
    suggestion = "" if default is None else str(default)
    answer_field = AnswerField(
        label=label, kind=kind, options=options, suggestion=suggestion, optional=optional
    )
    return _RequestedValue(name, schema, answer_field, values)


def _choose_answer_kind(schema: Mapping[str, Any], values: Mapping[str, str]) -> AnswerKind:
    match schema.get("type"):
        case "boolean":
            return AnswerKind.YES_NO
        case "number" | "integer":
            return AnswerKind.NUMBER
        case "array" if values:
            return AnswerKind.TEXT
        case "string" if values:
            return AnswerKind.CHOICE
        case "string":
            return AnswerKind.DATE if schema.get("format") == "date" else AnswerKind.TEXT
    raise ValueError("no plain value")


def _parse_options(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a choice: the value of each, by the label that is shown."""
    of = schema.get("items", {}) if schema.get("type") == "array" else schema
    if titled := of.get("oneOf") or of.get("anyOf"):
        shown = [str(each.get("title") or each["const"]) for each in titled]
        values = [str(each["const"]) for each in titled]
    else:
        values = [str(each) for each in of.get("enum", ())]
        shown = [str(each) for each in of.get("enumNames") or values]
    shown = [" ".join(each.split()) for each in shown]
    if len({each.casefold() for each in shown}) < len(values):
        raise ValueError("two of its options read the same")
    return dict(zip(shown, values, strict=True))


def _describe_requested_value(field: _RequestedValue) -> str:
    said = field.schema.get("description")
    return f"{field.answer_field.label}: {' '.join(str(said).split())}." if said else ""


def _normalize_text(text: str) -> str:
    """Return text in lower case as separate words, without hidden characters."""
    plain = unicodedata.normalize("NFKC", text)
    seen = "".join(each for each in plain if not is_hidden_character(each))
    return re.sub(r"[_\-\s]+", " ", _CAMEL_CASE_PATTERN.sub(" ", seen)).lower()


MAX_ANSWER_ATTEMPTS = 3  # per question
MIN_ANSWER_SECONDS = 1.0

log = logging.getLogger("countersign.servers")


class _NoAnswerError(Exception):
    """Raised if a server's question gets no answer; holds the result to send to the server."""

    def __init__(self, result: ElicitResult) -> None:
        super().__init__(result.action)
        self.result = result


class RunningServerCall:
    """One running call of a server's tool; used on one event loop."""

    def __init__(self, server: Server, line: ElicitationPort) -> None:
        self._server, self._port = server, line
        self._scope = anyio.CancelScope()
        self._answer_timeout = server.answer_within
        self._seconds_left, self._question_count = 0.0, 0
        self._question_lock, self._thread_limiter = anyio.Lock(), anyio.CapacityLimiter(1)

    @contextmanager
    def limit_server_time(self) -> Iterator[None]:
        """Raise TimeoutError if this block takes longer than the server's time-out."""
        with anyio.fail_after(self._server.timeout) as self._scope:
            yield

    async def show_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        """Show people the progress that the server reports."""
        far = f"{progress:g} of {total:g}" if total else f"{progress:g}"
        self._port.tell(" · ".join(filter(None, [far, message])))

    async def answer_elicitation(self, request: ElicitRequestParams) -> ElicitResult:
        """Ask people what the server wants to know, and return the result for the server.

        "decline": they may not be asked, or cannot say. "cancel": nobody answered in time, or no
        answer was acceptable.
        """
        with self._pause_time_limit():
            async with self._question_lock:  # of several at once, one after the other
                try:
                    content = await self._collect_answers(request)
                    return ElicitResult(action="accept", content=content)
                except UnaskableQuestionError as error:
                    name = self._server.name
                    log.warning("a question from the server %s is declined: %s", name, error)
                    return ElicitResult(action="decline")
                except _NoAnswerError as ended:
                    return ended.result

    async def _collect_answers(self, fields: ElicitRequestParams) -> Content:
        if not isinstance(fields, ElicitRequestFormParams):
            raise UnaskableQuestionError("it wants somebody to open an address")
        content: Content = {}
        elicited = Elicitation(fields.message, fields.requested_schema)
        for number, (asked, requested_values) in enumerate(elicited.build_questions()):
            question = asked
            for _ in range(MAX_ANSWER_ATTEMPTS):
                answer = await self._ask_question(question)
                try:
                    content |= convert_answers_for_server(requested_values, answer.values)
                    break
                except InvalidAnswerError as error:
                    question = list(elicited.build_questions(wrong=str(error)))[number][0]
            else:
                raise _NoAnswerError(ElicitResult(action="cancel"))
        return content

    async def _ask_question(self, asked: AskPerson) -> ElicitationAnswer:
        """Ask people one question; raises _NoAnswerError if there is no answer."""
        started_at = anyio.current_time()
        if self._answer_timeout < MIN_ANSWER_SECONDS:
            raise _NoAnswerError(ElicitResult(action="cancel"))
        is_over = threading.Event()
        question = ElicitationRequest(asked, self._server.name, self._answer_timeout)
        try:
            answer = await to_thread.run_sync(
                partial(self._port.ask, question, is_over.is_set),
                abandon_on_cancel=True,
                limiter=self._thread_limiter,
            )
        finally:
            is_over.set()
            self._answer_timeout -= anyio.current_time() - started_at
        match answer.outcome:
            case ElicitationOutcome.ANSWERED:
                return answer
            case ElicitationOutcome.REFUSED:
                raise UnaskableQuestionError(answer.why)
            case ElicitationOutcome.DECLINED:
                raise _NoAnswerError(ElicitResult(action="decline"))
            case ElicitationOutcome.NOBODY:
                raise _NoAnswerError(ElicitResult(action="cancel"))

    @contextmanager
    def _pause_time_limit(self) -> Iterator[None]:
        if not self._question_count:
            self._seconds_left = self._scope.deadline - anyio.current_time()
            self._scope.deadline = math.inf
        self._question_count += 1
        try:
            yield
        finally:
            self._question_count -= 1
            if not self._question_count:
                self._scope.deadline = anyio.current_time() + self._seconds_left
