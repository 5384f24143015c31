"""The Edit modal over random models and values: what nobody touched comes back as it was."""

from __future__ import annotations

import json
import string
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import AnyUrl, BaseModel, EmailStr, SecretStr, create_model

from bot.cards.button_codec import CallTarget
from bot.cards.edit_form import ParsedEdit, parse_edit_submission, render_edit_dialog
from bot.cards.field_values import list_argument_values
from slack_sandbox.blockkit.inputs import states
from tests.messages.fields_support import changed_values, tool_for, view_of

TEXTS = st.one_of(
    st.text(max_size=60),
    st.text(alphabet='"[]\n\r\t &<>\u202e\u200b\x00😀', max_size=8),
    st.sampled_from(
        ['""', "[]", "null", "(unset)", "x" * 3000, "&" * 700, "😀" * 1501, "y" * 13_000]
    ),
)
ZONES = st.sampled_from(
    [UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-9))]
)
JSONS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


class Colour(Enum):
    """A choice of unlike values."""

    RED = "red"
    LONG = "l" * 160
    EMPTY = ""
    ONE = 1


@dataclass
class Sort:
    """A type and the values it may have."""

    type_: Any
    values: st.SearchStrategy[Any]


SORTS: dict[str, Sort] = {
    "text": Sort(str, TEXTS),
    "integer": Sort(int, st.integers() | st.sampled_from([2**53 + 1, -(2**70)])),
    "float": Sort(float, st.floats(allow_nan=False, allow_infinity=False)),
    "decimal": Sort(Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    "boolean": Sort(bool, st.booleans()),
    "enum": Sort(Colour, st.sampled_from(Colour)),
    "literal": Sort(Literal["a", 1, "1", True], st.sampled_from(["a", 1, "1", True])),
    "date": Sort(date, st.dates()),
    "time": Sort(time, st.times() | st.times(timezones=ZONES)),
    "moment": Sort(datetime, st.datetimes() | st.datetimes(timezones=ZONES)),
    "email": Sort(EmailStr, st.sampled_from(["ana@example.com", "ü.x+y@exämple.org"])),
    "link": Sort(
        AnyUrl, st.sampled_from(["https://example.com/?a=1&b=<2>", "ftp://x.example/ä"]).map(AnyUrl)
    ),
    "texts": Sort(list[str], st.lists(TEXTS, max_size=4)),
    "numbers": Sort(list[int], st.lists(st.integers(), max_size=3)),
    "object": Sort(dict[str, Any], st.dictionaries(TEXTS, JSONS, max_size=3)),
    "anything": Sort(Any, JSONS),
    "union": Sort(int | str, st.integers() | TEXTS),
    "secret": Sort(SecretStr, TEXTS.map(SecretStr)),
}


@st.composite
def models(draw: st.DrawFn, deep: int = 2) -> BaseModel:
    """Return an instance of a model made up on the spot.

    Its fields are of any sort, some optional, some models themselves.
    """
    fields: dict[str, Any] = {}
    given_: dict[str, Any] = {}
    for name in draw(
        st.lists(st.text(string.ascii_lowercase, min_size=2, max_size=4), max_size=6, unique=True)
    ):
        name = f"f_{name}"
        if deep and draw(st.integers(0, 4)) == 0:
            inner = draw(models(deep=deep - 1))
            sort = Sort(type(inner), st.just(inner))
        else:
            sort = SORTS[draw(st.sampled_from(sorted(SORTS)))]
        if draw(st.booleans()):
            sort = Sort(
                sort.type_ | None if sort.type_ is not Any else Any, st.none() | sort.values
            )
        fields[name] = (sort.type_, ...)
        given_[name] = draw(sort.values)
    model: type[BaseModel] = create_model("Made", **fields)
    return model(**given_)


SETTINGS = settings(suppress_health_check=[HealthCheck.too_slow])


@SETTINGS
@given(models(), st.booleans())
def test_untouched_modal_changes_nothing(instance: BaseModel, approve: bool) -> None:
    """Whatever the values, the modal is one Slack takes, and sent back as it came it is no edit."""
    tool = tool_for(type(instance))
    arguments = instance.model_dump(mode="json")
    view = view_of(tool, arguments, approve)
    assert len(json.dumps(view)) <= 250_000
    state = json.loads(json.dumps(states(view["blocks"])))
    assert parse_edit_submission(tool, arguments, state) == ParsedEdit(
        arguments, changed=False, approve=False
    )
    assert all(
        value.previous_text is None and value.text
        for value in list_argument_values(tool, arguments, arguments)
    )


@SETTINGS
@given(models(), TEXTS.filter(lambda text: 0 < len(text) <= 3000))
def test_an_edit_of_one_value_keeps_all_others(instance: BaseModel, text: str) -> None:
    """With one text changed the others come back to the last digit, really validated."""
    model = create_model("Marked", __base__=type(instance), marked=(str, ...))
    tool = tool_for(model)
    arguments = {**instance.model_dump(mode="json"), "marked": "before"}
    state = states(
        render_edit_dialog(tool, arguments, target=CallTarget("c", 1), save_and_approve=True)[
            "blocks"
        ]
    )
    state["f:marked"]["v"]["value"] = text
    parsed = parse_edit_submission(tool, arguments, state)
    assert isinstance(parsed, ParsedEdit)
    expected = arguments | {"marked": text.replace("\r\n", "\n").replace("\r", "\n")}
    assert parsed == ParsedEdit(expected, changed=expected != arguments, approve=False)


@SETTINGS
@given(models(), st.data())
def test_any_state_is_read_or_refused(instance: BaseModel, data: st.DataObject) -> None:
    """Whatever is sent, the answer fits the model, or is sentences at its inputs."""
    tool = tool_for(type(instance))
    arguments = instance.model_dump(mode="json")
    state = states(
        render_edit_dialog(tool, arguments, target=CallTarget("c", 1), save_and_approve=True)[
            "blocks"
        ]
    )
    for block_id in data.draw(st.lists(st.sampled_from(sorted(state)), max_size=4)):
        for key in state[block_id]["v"].keys() - {"type"}:
            odd: Any = TEXTS | st.none() | st.integers(-1, 10**10)
            option = st.sampled_from(["yes", "no", "(unset)", "0", "nonsense"]).map(
                lambda value: {"value": value}
            )
            state[block_id]["v"][key] = data.draw(
                {"selected_option": option, "selected_options": st.just([])}.get(key, odd)
            )
    answer = parse_edit_submission(tool, arguments, state)
    if isinstance(answer, ParsedEdit):
        instance.model_validate_json(json.dumps(answer.arguments))
        assert answer.changed == bool(changed_values(tool, arguments, answer.arguments))
    else:
        assert answer.errors
        assert answer.errors.keys() <= {*state, ""} - {"then"}
        assert all(0 < len(text) <= 150 for text in answer.errors.values())
