"""How the parameters of a Python function are shown to people, and which cannot be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import partial
from io import StringIO
from pathlib import Path
from threading import Thread
from typing import Annotated, Any

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    PlainSerializer,
    SecretStr,
    StringConstraints,
    ValidationError,
)

from countersign import countersigned
from countersign.decorated import humanize_identifier
from countersign.schema import (
    MAX_RESULT_BYTES,
    FunctionJsonCodec,
    build_function_codec,
    convert_result_to_json,
    infer_schema_from_values,
    list_shown_parameters,
)

CLIENT = Path(__file__).parents[1]


class Window(BaseModel):
    """A day and a number of hours."""

    day: date
    hours: int = 2


def move(
    order: Annotated[int, Field(ge=1, title="Order")],
    /,
    amount: Decimal,
    when: Window,
    tags: list[str] = [],  # noqa: B006 # a default that a colleague may write
    *,
    note: str | None = None,
) -> Window:
    """Move an order."""
    return when


def test_parameters_become_a_schema() -> None:
    """With types, bounds, titles and defaults; parameters without a default are required."""
    schema = build_function_codec(move, list_shown_parameters(move, ())).schema
    assert schema["required"] == ["order", "amount", "when"]
    assert schema["properties"]["order"] == {"minimum": 1, "title": "Order", "type": "integer"}
    assert schema["additionalProperties"] is False
    assert "day" in schema["$defs"]["Window"]["properties"]


def test_arguments_survive_the_way_to_json_and_back() -> None:
    """JSON is sent; edited JSON becomes the function's types again."""
    shape = build_function_codec(move, list_shown_parameters(move, ()))
    when = Window(day=date(2026, 11, 24))
    sent = shape.arguments_to_json(
        {"order": 7, "amount": Decimal("1.10"), "when": when, "note": "now"}
    )
    assert sent["when"] == {"day": "2026-11-24", "hours": 2}
    back = shape.arguments_from_json({**sent, "amount": "2.20", "tags": ["late"]})
    assert back == {
        "order": 7,
        "amount": Decimal("2.20"),
        "when": when,
        "tags": ["late"],
        "note": "now",
    }
    with pytest.raises(ValidationError):
        shape.arguments_from_json({**sent, "order": 0})
    assert shape.result_from_json({"day": "2026-11-25"}) == Window(day=date(2026, 11, 25))
    assert shape.result_from_json("no window") == "no window"


class Account(BaseModel):
    """An account with its password."""

    name: str
    password: SecretStr


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"account": Account(name="ops", password=SecretStr("hush"))}, "a secret"),
        ({"account": {"name": "ops", "password": "hush"}}, "a secret"),
        ({"account": None, "attempts": [{"most": float("inf")}]}, "the number inf"),
        ({"account": None, "attempts": object()}, "object"),
        ({"account": None, "attempts": b"\xff"}, "utf-8"),
        ({"account": None, "places": {(1, 2): "here"}}, "a valid array"),
    ],
)
def test_arguments_that_json_would_change_are_refused(given: dict[str, Any], why: str) -> None:
    """Pydantic writes a secret as asterisks, infinity as null and a tuple as a key as text."""

    def log_in_if_given(
        account: Account | None, attempts: Any = 1, places: dict[tuple[int, int], str] | None = None
    ) -> None:
        """Log in."""

    codec = build_function_codec(log_in_if_given, list_shown_parameters(log_in_if_given, ()))
    with pytest.raises(TypeError, match=f"{why}.*name it in `without`"):
        codec.arguments_to_json(given)


SENDS_SETS = """
import json
from typing import Any
from countersign.schema import build_function_codec, list_shown_parameters

def invite(people: set[str], groups: list[tuple[frozenset[str], int]], more: Any) -> None: ...

codec = build_function_codec(invite, list_shown_parameters(invite, ()))
names = {"ana", "ben", "cleo", "dora", "emil"}
given = {"people": names, "groups": [(names, 2)], "more": {"who": names}}
print(json.dumps(codec.arguments_to_json(given)))
"""


def test_a_set_is_sent_in_the_same_order_by_each_process() -> None:
    """A process that starts again finds its request by the arguments."""
    sent = {
        subprocess.run(
            [sys.executable, "-c", SENDS_SETS],
            cwd=CLIENT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2", "3")
    }
    names = ["ana", "ben", "cleo", "dora", "emil"]
    expected = {"people": names, "groups": [[names, 2]], "more": {"who": names}}
    assert sent == {json.dumps(expected) + "\n"}


def test_a_default_of_none_may_be_left_out() -> None:
    """As many functions are written, though their type does not say so."""

    def tell(whom: str = None, age: Annotated[int, Field(ge=1)] = None) -> None:  # type: ignore[assignment] # noqa: RUF013 # on purpose
        """Tell somebody."""

    codec = build_function_codec(tell, list_shown_parameters(tell, ()))
    nothing = {"whom": None, "age": None}
    assert codec.arguments_from_json(codec.arguments_to_json(nothing)) == nothing
    with pytest.raises(ValidationError):
        codec.arguments_from_json({"age": 0})


def test_a_default_in_a_pydantic_field_is_used() -> None:
    """With a title beside it."""

    def tell(whom: str = Field("@ben", title="Whom")) -> None:
        """Tell somebody."""

    parameters = list_shown_parameters(tell, ())
    codec = build_function_codec(tell, parameters)
    assert codec.schema["properties"]["whom"]["title"] == "Whom"
    assert codec.arguments_to_json({"whom": parameters["whom"].default}) == {"whom": "@ben"}


class Freeze(BaseModel):
    """A time span with the names of another program."""

    begins: date = Field(alias="from")
    ends: date | None = Field(None, alias="to")


def test_a_field_is_sent_under_its_alias() -> None:
    """As in the schema; it comes back unchanged."""

    def freeze(span: Freeze) -> None:
        """Freeze."""

    codec = build_function_codec(freeze, list_shown_parameters(freeze, ()))
    span = Freeze.model_validate({"from": "2026-12-19"})
    sent = codec.arguments_to_json({"span": span})
    assert sent == {"span": {"from": "2026-12-19", "to": None}}
    assert sent["span"].keys() == codec.schema["$defs"]["Freeze"]["properties"].keys()
    assert codec.arguments_from_json(sent) == {"span": span}


def make_codec(kind: Any) -> FunctionJsonCodec:
    """The codec of a function with one parameter of this type."""

    def pay(what: Any) -> None:
        """Pay."""

    pay.__annotations__["what"] = kind
    return build_function_codec(pay, list_shown_parameters(pay, ()))


class Order(BaseModel):
    """Read under one name and written under another, and with a default."""

    amount: int = Field(7, validation_alias="sum")


@dataclass
class Bill:
    """A total that grows each time the bill is made."""

    items: int
    total: int = 0

    def __post_init__(self) -> None:
        self.total += self.items


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Annotated[int, AfterValidator(lambda value: value * 2)], 5),
        (Annotated[int, PlainSerializer(lambda value: value * 100)], 5),
        (Annotated[str, AfterValidator(lambda value: value[:-1])], "prod-1"),
        (Order, Order(sum=1)),
        (list[Order], [Order(sum=1)]),
        (Bill, Bill(5)),
    ],
)
def test_arguments_that_would_be_read_otherwise_are_refused(kind: Any, given: object) -> None:
    """The function would run with other values than people are shown."""

    with pytest.raises(TypeError, match="pay would not run with the what that people are shown"):
        make_codec(kind).arguments_to_json({"what": given})


class Size(StrEnum):
    """A value with a name."""

    LARGE = "large"


@pytest.mark.parametrize(
    ("kind", "edited"),
    [
        (Annotated[int, AfterValidator(lambda value: min(value, 100))], 500),
        (Annotated[str, AfterValidator(str.lower)], "PROD"),
        (list[Annotated[int, AfterValidator(lambda value: min(value, 100))]], [1, 500]),
        (dict[str, Annotated[float, AfterValidator(abs)]], {"a": -1.5}),
        (set[Annotated[str, AfterValidator(str.lower)]], ["PROD"]),
        (Annotated[list[int], AfterValidator(lambda value: value[:1])], [1, 2]),
        (Annotated[bool | None, BeforeValidator(lambda value: bool(value))], None),
    ],
)
def test_an_edit_that_a_type_changes_is_refused(kind: Any, edited: Any) -> None:
    """People approved what they see."""
    with pytest.raises(TypeError, match="pay would not run with the what that people approved"):
        make_codec(kind).arguments_from_json({"what": edited})


def test_a_default_that_nobody_has_seen_is_refused() -> None:
    """People took the value out, also within another; one that is nothing then may be."""
    codec = build_function_codec(move, list_shown_parameters(move, ()))
    window = {"day": "2026-12-19", "hours": 2}
    sent = {"order": 1, "amount": "2.50", "when": window, "tags": [], "note": "gone"}
    assert codec.arguments_from_json({**sent, "note": None})["note"] is None
    for name, edited in (("tags", None), ("when", {"day": "2026-12-19"})):
        kept = {key: each for key, each in {**sent, name: edited}.items() if each is not None}
        with pytest.raises(TypeError, match=f"with the {name} that people approved"):
            codec.arguments_from_json(kept)


@pytest.mark.parametrize(
    ("kind", "edited", "read"),
    [
        (float, 5, 5.0),
        (int, "9007199254740993", 9007199254740993),
        (Decimal, "2.50", Decimal("2.50")),
        (datetime, "2026-11-20T10:00:00+00:00", datetime(2026, 11, 20, 10, tzinfo=UTC)),
        (timedelta, "PT90M", timedelta(minutes=90)),
        (Annotated[str, StringConstraints(strip_whitespace=True)], " a ", "a"),
        (set[str], ["b", "a", "b"], {"a", "b"}),
        (dict[int, list[Decimal]], {"7": ["1.0"]}, {7: [Decimal("1.0")]}),
        (Size, "large", Size.LARGE),
        (Freeze, {"from": "2026-12-19"}, Freeze.model_validate({"from": "2026-12-19"})),
    ],
)
def test_an_edit_may_be_written_in_any_way(kind: Any, edited: Any, read: Any) -> None:
    """It is the same value."""
    assert make_codec(kind).arguments_from_json({"what": edited}) == {"what": read}


@pytest.mark.parametrize(
    ("about", "why"),
    [
        (Field(alias="sum"), "`Field` gives amount an alias"),
        (Field(validation_alias="sum"), "`Field` gives amount an alias"),
        (Field(exclude=True), "would not see a field with exclude="),
    ],
)
def test_parameters_that_people_would_not_see_by_name_are_refused(about: Any, why: str) -> None:
    """An effect and the policy name the parameter."""

    def pay(amount: int = 1) -> None:
        """Pay."""

    pay.__annotations__["amount"] = Annotated[int, about]
    with pytest.raises(TypeError, match=f"^pay: .*{why}"):
        build_function_codec(pay, list_shown_parameters(pay, ()))


def test_types_that_are_not_sent_may_be_unknown() -> None:
    """The result and hidden parameters may have any type, even one only a type checker knows."""

    def deploy(context: Missing, version: str) -> Missing:  # type: ignore[name-defined] # noqa: F821 # on purpose
        """Deploy."""

    def start(version: str) -> Thread:
        """Start."""
        return Thread(name=version)

    for function, without in ((deploy, {"context"}), (start, set[str]())):
        codec = build_function_codec(function, list_shown_parameters(function, without))
        assert codec.arguments_to_json({"version": "1.2"}) == {"version": "1.2"}
        assert codec.result_from_json("done") == "done"


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated at once")
def test_annotations_that_are_evaluated_late_may_be_unknown_too() -> None:
    """Without `from __future__ import annotations`, on Python 3.14."""
    code = 'def deploy(context: Missing, version: str, note: "str" = "") -> Missing: ...'
    module: dict[str, Any] = {}
    exec(compile(code, __file__, "exec", dont_inherit=True), module)
    gated = countersigned(without={"context"})(module["deploy"])
    codec = build_function_codec(gated, list_shown_parameters(gated, {"context"}))
    assert codec.arguments_to_json({"version": "1.2"}) == {"version": "1.2", "note": ""}


def take_anything(*things: Any) -> None:
    """Take anything."""


def take_iterator(line: Iterator[Any], version: str) -> None:
    """Take a value that is no JSON."""


def yield_number() -> Iterator[int]:
    """Yield a number."""
    yield 1


def test_functions_that_cannot_be_shown_are_refused_when_decorated() -> None:
    """Arguments without names, an effect with an unknown parameter, generators, and the like."""
    with pytest.raises(TypeError, match="give them names"):
        countersigned()(take_anything)
    with pytest.raises(ValueError, match=r"names \{place\}"):
        countersigned(effect="Deploy to {place}")(move)
    with pytest.raises(TypeError, match="no parameter ctx"):
        countersigned(without={"ctx"})(move)
    with pytest.raises(TypeError, match="generator"):
        countersigned()(yield_number)
    for nameless in (partial(move, 1), lambda: 1):
        with pytest.raises(TypeError, match="cannot be the name of an action"):
            countersigned()(nameless)
    with pytest.raises(TypeError, match="chanel"):
        countersigned(chanel="#support")
    with pytest.raises(ValueError, match="harmless"):
        countersigned(does="harmless")(move)
    for kind in (classmethod, staticmethod):
        with pytest.raises(TypeError, match=f"put @{kind.__name__} above @countersigned"):
            countersigned()(kind(move))
    for wrong in ("5m", -1):
        with pytest.raises(ValueError, match=f"seconds that people have, and not {wrong!r}"):
            countersigned(wait=wrong)  # type: ignore[arg-type] # on purpose


def test_decorating_keeps_name_documentation_and_signature() -> None:
    """Frameworks read them."""
    import inspect

    gated = countersigned()(move)
    assert (gated.__name__, gated.__doc__) == ("move", "Move an order.")
    assert inspect.signature(gated) == inspect.signature(move)


class Wordless:
    """An object without a text, like a row of a closed session."""

    def __str__(self) -> str:
        raise LookupError("the session is closed")


def test_results_that_are_no_json_are_reported_as_text() -> None:
    """A very long result is cut, with its length."""
    assert convert_result_to_json({"at": date(2026, 11, 24), "who": {1}}) == {
        "at": "2026-11-24",
        "who": [1],
    }
    assert convert_result_to_json(float("nan")) == "NaN"
    assert convert_result_to_json(object).startswith("<class")
    itself: list[Any] = []
    itself.append(itself)
    assert convert_result_to_json(itself) == "[[...]]"
    assert convert_result_to_json(Wordless()) == "(Wordless without a text)"
    assert "int" in convert_result_to_json(10**5000)
    deep = json.loads("[" * 40 + "]" * 40)
    assert convert_result_to_json(deep) == f"{'[' * 40}{']' * 40}… (80 characters in all)"
    assert convert_result_to_json(deep[0][0][0][0][0][0][0][0][0][0]) == json.loads(
        "[" * 30 + "]" * 30
    )
    cut = convert_result_to_json("x" * MAX_RESULT_BYTES)
    assert cut.endswith("(90,002 characters in all)")
    assert len(cut) < MAX_RESULT_BYTES


@dataclass
class Report:
    """A result that holds another one."""

    lines: Any


@pytest.mark.parametrize(
    "hold", [Report, lambda rows: {"rows": rows}, lambda rows: (rows,), lambda rows: deque([rows])]
)
@pytest.mark.parametrize(
    "make",
    [
        lambda: (each for each in "ab"),
        lambda: iter("ab"),
        lambda: StringIO("ab"),
        partial(map, str, "ab"),
    ],
)
def test_what_a_result_yields_is_left_to_the_caller(hold: Any, make: Any) -> None:
    """Reading it for the record would leave nothing, and may have no end."""
    rows = make()
    assert type(rows).__name__ in str(convert_result_to_json(hold(rows)))
    assert "".join(rows) == "ab"


def test_a_schema_can_be_inferred_from_values() -> None:
    """For jobs and coding agents; nothing may be added to the values."""
    schema = infer_schema_from_values({"command": "ls", "timeout": 5, "quiet": True, "other": None})
    kinds = {name: each.get("type") for name, each in schema["properties"].items()}
    assert kinds == {"command": "string", "timeout": "integer", "quiet": "boolean", "other": None}
    assert humanize_identifier("deploy_app") == "Deploy app"


def test_importing_the_client_loads_the_standard_library_only() -> None:
    """And nothing of the bot's libraries."""
    code = "import sys; from countersign import countersigned; print([m for m in sys.modules"
    code += " if m.startswith(('pydantic', 'sqlalchemy', 'slack', 'httpx', 'bot.'))])"
    command = [sys.executable, "-S", "-c", code]
    said = subprocess.run(command, cwd=CLIENT, capture_output=True, text=True, timeout=60)
    assert said.stdout == "[]\n", said.stderr
