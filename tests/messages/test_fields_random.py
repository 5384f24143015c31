"""The Edit dialog of random models and values: untouched values are kept as they were."""

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
from tests.messages.fields_support import changed_values, make_tool, render_view

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
    """A choice of different values."""

    RED = "red"
    LONG = "l" * 160
    EMPTY = ""
    ONE = 1


@dataclass
class TypeSample:
    """A type, with its possible values."""

    type_: Any
    values: st.SearchStrategy[Any]


TYPE_SAMPLES: dict[str, TypeSample] = {
    "text": TypeSample(str, TEXTS),
    "integer": TypeSample(int, st.integers() | st.sampled_from([2**53 + 1, -(2**70)])),
    "float": TypeSample(float, st.floats(allow_nan=False, allow_infinity=False)),
    "decimal": TypeSample(Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    "boolean": TypeSample(bool, st.booleans()),
    "enum": TypeSample(Colour, st.sampled_from(Colour)),
    "literal": TypeSample(Literal["a", 1, "1", True], st.sampled_from(["a", 1, "1", True])),
    "date": TypeSample(date, st.dates()),
    "time": TypeSample(time, st.times() | st.times(timezones=ZONES)),
    "moment": TypeSample(datetime, st.datetimes() | st.datetimes(timezones=ZONES)),
    "email": TypeSample(EmailStr, st.sampled_from(["ana@example.com", "ü.x+y@exämple.org"])),
    "link": TypeSample(
        AnyUrl, st.sampled_from(["https://example.com/?a=1&b=<2>", "ftp://x.example/ä"]).map(AnyUrl)
    ),
    "texts": TypeSample(list[str], st.lists(TEXTS, max_size=4)),
    "numbers": TypeSample(list[int], st.lists(st.integers(), max_size=3)),
    "object": TypeSample(dict[str, Any], st.dictionaries(TEXTS, JSONS, max_size=3)),
    "anything": TypeSample(Any, JSONS),
    "union": TypeSample(int | str, st.integers() | TEXTS),
    "secret": TypeSample(SecretStr, TEXTS.map(SecretStr)),
}


@st.composite
def draw_instance(draw: st.DrawFn, deep: int = 2) -> BaseModel:
    """Draw an instance of a random model.

    Its fields are of any type, some optional, some models themselves.
    """
    fields: dict[str, Any] = {}
    given_: dict[str, Any] = {}
    for name in draw(
        st.lists(st.text(string.ascii_lowercase, min_size=2, max_size=4), max_size=6, unique=True)
    ):
        name = f"f_{name}"
        if deep and draw(st.integers(0, 4)) == 0:
            inner = draw(draw_instance(deep=deep - 1))
            sort = TypeSample(type(inner), st.just(inner))
        else:
            sort = TYPE_SAMPLES[draw(st.sampled_from(sorted(TYPE_SAMPLES)))]
        if draw(st.booleans()):
            sort = TypeSample(
                sort.type_ | None if sort.type_ is not Any else Any, st.none() | sort.values
            )
        fields[name] = (sort.type_, ...)
        given_[name] = draw(sort.values)
    model: type[BaseModel] = create_model("Made", **fields)
    return model(**given_)


SETTINGS = settings(suppress_health_check=[HealthCheck.too_slow])


@SETTINGS
@given(draw_instance(), st.booleans())
def test_submitting_a_random_dialog_untouched_changes_nothing(
    instance: BaseModel, approve: bool
) -> None:
    """The dialog is one that Slack accepts."""
    tool = make_tool(type(instance))
    arguments = instance.model_dump(mode="json")
    view = render_view(tool, arguments, approve)
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
@given(draw_instance(), TEXTS.filter(lambda text: 0 < len(text) <= 3000))
def test_an_edit_of_one_value_keeps_all_others(instance: BaseModel, text: str) -> None:
    """The other values are the same to the last digit, and validated."""
    model = create_model("Marked", __base__=type(instance), marked=(str, ...))
    tool = make_tool(model)
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
@given(draw_instance(), st.data())
def test_any_submitted_state_is_read_or_refused(instance: BaseModel, data: st.DataObject) -> None:
    """The result fits the model, or is a sentence at each wrong input."""
    tool = make_tool(type(instance))
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
