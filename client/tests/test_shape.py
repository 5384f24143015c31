"""What people are shown of a Python function, and what cannot be shown to them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, SecretStr, ValidationError

from countersign import countersigned
from countersign.decorated import humanize_identifier
from countersign.schema import (
    MAX_RESULT_BYTES,
    build_function_codec,
    convert_result_to_json,
    infer_schema_from_values,
    list_shown_parameters,
)

CLIENT = Path(__file__).parents[1]


class Window(BaseModel):
    """When."""

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
    """Types, bounds, titles and defaults are there; what is needed is required."""
    schema = build_function_codec(move, list_shown_parameters(move, ())).schema
    assert schema["required"] == ["order", "amount", "when"]
    assert schema["properties"]["order"] == {"minimum": 1, "title": "Order", "type": "integer"}
    assert schema["additionalProperties"] is False
    assert "day" in schema["$defs"]["Window"]["properties"]


def test_arguments_go_and_come_back_as_what_they_are() -> None:
    """What is sent is JSON; what comes back, edited, is of the function's types again."""
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
    """Whose."""

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
    ],
)
def test_what_would_run_as_something_else_is_not_asked(given: dict[str, Any], why: str) -> None:
    """Pydantic writes a secret as asterisks and infinity as null: with that nothing may run."""

    def log_in_if_given(account: Account | None, attempts: Any = 1) -> None:
        """Log in."""

    codec = build_function_codec(log_in_if_given, list_shown_parameters(log_in_if_given, ()))
    with pytest.raises(TypeError, match=f"{why}.*name it in `without`"):
        codec.arguments_to_json(given)


def test_a_default_in_pydantics_field_is_the_default() -> None:
    """A title may stand beside it, as in a model."""

    def tell(whom: str = Field("@ben", title="Whom")) -> None:
        """Tell somebody."""

    parameters = list_shown_parameters(tell, ())
    codec = build_function_codec(tell, parameters)
    assert codec.schema["properties"]["whom"]["title"] == "Whom"
    assert codec.arguments_to_json({"whom": parameters["whom"].default}) == {"whom": "@ben"}


class Freeze(BaseModel):
    """When, by the names of another program."""

    begins: date = Field(alias="from")
    ends: date | None = Field(None, alias="to")


def test_a_field_goes_by_its_alias() -> None:
    """What is sent has the names of the schema, and comes back as it was."""

    def freeze(span: Freeze) -> None:
        """Freeze."""

    codec = build_function_codec(freeze, list_shown_parameters(freeze, ()))
    span = Freeze.model_validate({"from": "2026-12-19"})
    sent = codec.arguments_to_json({"span": span})
    assert sent == {"span": {"from": "2026-12-19", "to": None}}
    assert sent["span"].keys() == codec.schema["$defs"]["Freeze"]["properties"].keys()
    assert codec.arguments_from_json(sent) == {"span": span}


def test_types_that_need_not_be_json_may_be_missing() -> None:
    """What it returns, and what people are not shown, is any class, also a type checker's alone."""

    def deploy(context: Missing, version: str) -> Missing:  # type: ignore[name-defined] # noqa: F821 # on purpose
        """Deploy."""

    def start(version: str) -> Thread:
        """Start."""
        return Thread(name=version)

    for function, without in ((deploy, {"context"}), (start, set[str]())):
        codec = build_function_codec(function, list_shown_parameters(function, without))
        assert codec.arguments_to_json({"version": "1.2"}) == {"version": "1.2"}
        assert codec.result_from_json("done") == "done"


def anything(*things: Any) -> None:
    """Take anything."""


def with_socket(line: Iterator[Any], version: str) -> None:
    """Take what is no JSON."""


def numbers() -> Iterator[int]:
    """Yield some."""
    yield 1


def test_what_people_cannot_be_told_is_refused_at_once() -> None:
    """Arguments without names, an effect of no parameter, generators: when it is decorated."""
    with pytest.raises(TypeError, match="give them names"):
        countersigned()(anything)
    with pytest.raises(ValueError, match=r"names \{place\}"):
        countersigned(effect="Deploy to {place}")(move)
    with pytest.raises(TypeError, match="no parameter ctx"):
        countersigned(without={"ctx"})(move)
    with pytest.raises(TypeError, match="generator"):
        countersigned()(numbers)
    for nameless in (partial(move, 1), lambda: 1):
        with pytest.raises(TypeError, match="cannot be the name of an action"):
            countersigned()(nameless)
    with pytest.raises(TypeError, match="chanel"):
        countersigned(chanel="#support")
    with pytest.raises(ValueError, match="harmless"):
        countersigned(does="harmless")(move)
    with pytest.raises(TypeError, match="put @classmethod above @countersigned"):
        countersigned()(classmethod(move))  # type: ignore[arg-type] # on purpose
    for wrong in ("5m", -1):
        with pytest.raises(ValueError, match=f"seconds that people have, and not {wrong!r}"):
            countersigned(wait=wrong)  # type: ignore[arg-type] # on purpose


def test_it_keeps_what_frameworks_read() -> None:
    """Name, documentation and signature are the function's own."""
    import inspect

    gated = countersigned()(move)
    assert (gated.__name__, gated.__doc__) == ("move", "Move an order.")
    assert inspect.signature(gated) == inspect.signature(move)


class Wordless:
    """What cannot be written, as a row of a closed session."""

    def __str__(self) -> str:
        raise LookupError("the session is closed")


def test_results_that_are_no_json_are_reported_as_text() -> None:
    """Whatever a function returns can be reported, and what is very long says how long."""
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


def test_values_alone_make_a_schema() -> None:
    """What a job or a coding agent gives is of its kinds, and nothing may be added."""
    schema = infer_schema_from_values({"command": "ls", "timeout": 5, "quiet": True, "other": None})
    kinds = {name: each.get("type") for name, each in schema["properties"].items()}
    assert kinds == {"command": "string", "timeout": "integer", "quiet": "boolean", "other": None}
    assert humanize_identifier("deploy_app") == "Deploy app"


def test_importing_it_loads_the_standard_library_alone() -> None:
    """A program that imports the client loads nothing of the bot's weight."""
    code = "import sys; from countersign import countersigned; print([m for m in sys.modules"
    code += " if m.startswith(('pydantic', 'sqlalchemy', 'slack', 'httpx', 'bot.'))])"
    command = [sys.executable, "-S", "-c", code]
    said = subprocess.run(command, cwd=CLIENT, capture_output=True, text=True, timeout=60)
    assert said.stdout == "[]\n", said.stderr
