"""Arguments that a JSON Schema describes: what is accepted, refused, stored and shown."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from pydantic import ValidationError

from bot.approvals.call_checks import explain_incomplete_display
from bot.tools import Effect, Tool, ToolContext
from bot.tools.arguments import dump_arguments, load_arguments
from bot.tools.described import SchemaError, build_argument_model
from tests.tools.described.samples import CREATE_ISSUE, SAMPLES

ACCEPTED = [(name, given) for name, each in SAMPLES.items() for given in each.taken]
REFUSED = [
    (name, at, given) for name, each in SAMPLES.items() for at, given in each.refused.items()
]


def make_tool(schema: dict[str, Any], effect: str = "Act") -> Tool[Any]:
    """Make a tool that takes what the schema describes and does nothing."""

    def act(args: Any, context: ToolContext) -> None:
        return None

    model = build_argument_model(schema, "act")
    return Tool("act", "Act", effect, Effect.WRITE, model, act)


def describe_object(**properties: Any) -> dict[str, Any]:
    """The schema of an object with these optional properties."""
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(("name", "given"), ACCEPTED)
def test_accepted_arguments_stay_as_they_were_given(name: str, given: dict[str, Any]) -> None:
    """This holds before and after they are stored."""
    tool = make_tool(SAMPLES[name].schema)
    args = load_arguments(tool, json.dumps(given))
    assert args.model_dump() == given
    stored = dump_arguments(args)
    again = load_arguments(tool, stored)
    assert dump_arguments(again) == stored
    assert again.model_dump(mode="json") == given
    assert tool.arguments.model_validate(given).model_dump() == given


@pytest.mark.parametrize(("name", "at", "given"), REFUSED)
def test_the_error_says_which_value_does_not_fit(name: str, at: str, given: dict[str, Any]) -> None:
    """It gives the path to the value."""
    with pytest.raises(ValidationError) as refused:
        load_arguments(make_tool(SAMPLES[name].schema), json.dumps(given))
    [error] = refused.value.errors()
    assert ".".join(map(str, error["loc"])) == at


def test_numbers_are_the_same_after_they_were_stored() -> None:
    """A number that would not be the same is refused."""
    tool = make_tool(describe_object(n={"type": "number"}, i={"type": "integer"}, any={}))
    for value in (0, 5, 2.5, 1e20, 1e21, 1e-7, -3, 2**60):
        stored = dump_arguments(load_arguments(tool, json.dumps({"n": value, "any": [value]})))
        again = load_arguments(tool, stored)
        assert again.model_dump() == {"n": value, "any": [value]}
        assert dump_arguments(again) == stored
    stored = dump_arguments(load_arguments(tool, json.dumps({"i": 2**70 + 1})))
    assert load_arguments(tool, stored).model_dump() == {"i": 2**70 + 1}
    for wrong in ({"n": 2**53 + 1}, {"any": 2**53 + 1}, {"n": True}, {"i": True}):
        with pytest.raises(ValidationError):
            load_arguments(tool, json.dumps(wrong))
    with pytest.raises(ValidationError):
        load_arguments(tool, '{"n": 1e400}')
    steps = make_tool(describe_object(i={"type": "integer", "multipleOf": 0.5}))
    assert load_arguments(steps, f'{{"i": {10**3000}}}').model_dump() == {"i": 10**3000}


@pytest.mark.parametrize(
    ("step", "fits", "others"),
    [
        (0.01, [19.99, 0.07, 1.1, 12.5, -4.35, 5, 1e300, 0, 123456789.01], [0.005, 19.999, 1e-320]),
        (0.1, [0.3, 1.1, 7], [0.35]),
        (1e-9, [0.000000001, 1e22], [1e-10]),
        (3, [9, 9.0, -3], [10, 0.5]),
    ],
)
def test_multiple_of_is_checked_digit_by_digit(
    step: float, fits: list[Any], others: list[Any]
) -> None:
    """An amount in cents is a multiple of 0.01, although floats divide it with a remainder."""
    tool = make_tool(describe_object(n={"type": "number", "multipleOf": step}))
    for value in fits:
        assert load_arguments(tool, json.dumps({"n": value})).model_dump() == {"n": value}
    for value in others:
        with pytest.raises(ValidationError, match="multiple of"):
            load_arguments(tool, json.dumps({"n": value}))


def test_only_keys_that_fit_a_pattern_are_accepted() -> None:
    """The schema allows no other keys, at the top and in a nested object."""
    labels = {"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False}
    inner = {"type": "object", "properties": {"a": {"type": "string"}}, **labels}
    schema = describe_object(inner=inner, a={"type": "string"}) | labels
    tool = make_tool(schema)
    fits = {"x1": 1, "inner": {"a": "b", "x2": 2}}
    assert load_arguments(tool, json.dumps(fits)).model_dump() == fits
    for wrong in ({"y": 1}, {"x1": "one"}, {"inner": {"y": 1}}, {"inner": {"x2": "two"}}):
        with pytest.raises(ValidationError):
            load_arguments(tool, json.dumps(wrong))
    assert (
        explain_incomplete_display(tool, dump_arguments(load_arguments(tool, json.dumps(fits))), {})
        == ""
    )


def test_null_means_left_out_where_the_schema_does_not_allow_null() -> None:
    """Models write null for what they leave out; a null that the schema allows is kept."""
    tool = make_tool(CREATE_ISSUE.schema)
    given = {"repo": "a/b", "title": "x", "priority": None, "body": None, "due date": None}
    args = load_arguments(tool, json.dumps(given))
    assert args.model_dump() == {"repo": "a/b", "title": "x", "body": None}
    with pytest.raises(ValidationError):
        load_arguments(tool, json.dumps({"repo": "a/b", "title": None}))


def test_the_model_is_given_the_schema_in_a_form_providers_accept() -> None:
    """The schema's own words are kept."""
    schema = {**CREATE_ISSUE.schema, "anyOf": [{"required": ["repo"]}]}
    shown = make_tool(schema).schema()
    assert shown["type"] == "object"
    assert "anyOf" not in shown
    assert shown["additionalProperties"] is False
    assert shown["properties"]["priority"] == {"enum": ["low", "high"]}
    assert shown["properties"]["labels"]["items"] == {"$ref": "#/$defs/Label"}
    assert "due date" in shown["properties"]
    assert shown["$defs"]["Label"]["enum"] == ["bug", "feature"]
    assert set(shown["required"]) >= {"repo", "title"}
    assert make_tool({"type": "object"}).schema().get("additionalProperties") is not False


def test_another_schema_has_another_digest() -> None:
    """So the digest of a call changes with its schema, also with what no field expresses."""
    digests = {
        make_tool(each).schema_digest()
        for each in (
            describe_object(a={"type": "string"}),
            describe_object(a={"type": "string", "maxLength": 5}),
            {**describe_object(a={"type": "string"}), "minProperties": 1},
        )
    }
    assert len(digests) == 3
    assert build_argument_model(describe_object(), "act") is build_argument_model(
        describe_object(), "act"
    )


def test_the_effect_may_name_fields_of_the_schema() -> None:
    """Their values are filled in."""
    tool = make_tool(CREATE_ISSUE.schema, "Open {title} in {repo}")
    args = load_arguments(tool, json.dumps({"repo": "a/b", "title": "x"}))
    assert tool.effect_sentence(args) == "Open x in a/b"


def test_no_error_repeats_the_value_it_is_about() -> None:
    """The value may be a secret; the error says what is expected."""
    schema = describe_object(
        a={"enum": ["x"]}, b={"not": {"const": "s3cret"}}, c={"format": "email"}
    )
    given = {"a": "s3cret", "b": "s3cret", "c": "s3cret"}
    with pytest.raises(ValidationError) as refused:
        load_arguments(make_tool(schema), json.dumps(given))
    told = [each["msg"] for each in refused.value.errors(include_input=False)]
    assert told
    assert not [each for each in told if "s3cret" in each]


REFUSED_SCHEMAS: dict[str, dict[str, Any]] = {
    "another document": describe_object(a={"$ref": "https://schemas.example/a.json"}),
    "which is not in it": describe_object(a={"$ref": "#/$defs/None"}),
    "leads to itself": {
        **describe_object(a={"$ref": "#/$defs/A"}),
        "$defs": {"A": {"$ref": "#/$defs/A"}},
    },
    "bounded time": describe_object(a={"type": "string", "pattern": "(?=(a+)+b)"}),
    "not valid at": describe_object(a={"type": "text"}),
    "not one of an object": {"type": "array"},
    "characters": describe_object(a={"description": "x" * 100_000}),
    "is not JSON": {"type": {1, 2}},
    "endless time": {**describe_object(a={}), "unevaluatedProperties": False},
}


@pytest.mark.parametrize("why", REFUSED_SCHEMAS)
def test_a_schema_that_cannot_be_used_is_refused(why: str) -> None:
    """It is wrong, refers to another document or cannot be checked in time."""
    with pytest.raises(SchemaError, match=why):
        build_argument_model(REFUSED_SCHEMAS[why], "act")


@pytest.mark.parametrize(
    "odd",
    [
        {"definitions": 5},
        {"definitions": ["a"]},
        {"definitions": {"a": {}}, "$defs": "none"},
        {"dependencies": {"a": ["b"]}, "dependentRequired": 5},
        {"dependencies": {"a": {}}, "dependentSchemas": "none"},
    ],
    ids=str,
)
def test_old_keywords_with_values_of_the_wrong_kind_are_refused(odd: dict[str, Any]) -> None:
    """They are refused like any other keyword, whatever they would be merged with."""
    with pytest.raises(SchemaError, match="not valid at"):
        build_argument_model({**describe_object(a={"type": "string"}), **odd}, "act")


BOUNDED_TEXT = {"type": "string", "maxLength": 3.0}
BOUNDS = [
    (BOUNDED_TEXT, "abcd", "at most 3 characters"),
    ({"type": "array", "maxItems": 1.0}, [1, 2], "at most 1 item"),
    ({"type": "string", "minLength": 2.0**80}, "abcd", "one of the forms"),
    ({"type": "array", "minItems": 10**20}, [1], "one of the forms"),
    ({"type": "integer", "minimum": 10**400}, 5, "one of the forms"),
    ({"type": "number", "exclusiveMaximum": -(10**400)}, 5, "one of the forms"),
    ({"type": "integer", "multipleOf": 10**400}, 5, "one of the forms"),
]


@pytest.mark.parametrize(("schema", "value", "told"), BOUNDS, ids=lambda each: str(each)[:40])
def test_a_bound_may_be_a_fraction_or_huge(schema: dict[str, Any], value: Any, told: str) -> None:
    """It is enforced, and the error names it where that is possible."""
    with pytest.raises(ValidationError, match=told):
        load_arguments(make_tool(describe_object(a=schema)), json.dumps({"a": value}))


def test_a_schema_that_grows_with_its_references_is_refused() -> None:
    """References that double at each step, or nest without end, take no time."""
    doubling = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(40)
    }
    ends = {"d40": {"type": "string", "const": "x"}}
    schema = {**describe_object(a={"$ref": "#/$defs/d0"}), "$defs": {**doubling, **ends}}
    with pytest.raises(SchemaError, match="endless time"):
        build_argument_model(schema, "act")
    both = json.loads(json.dumps(schema).replace("anyOf", "allOf"))
    with pytest.raises(SchemaError, match="too many others"):
        build_argument_model(both, "act")
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(30):
        deep = {"type": "array", "items": deep}
    with pytest.raises(SchemaError, match="levels deep"):
        build_argument_model(describe_object(a=deep), "act")
    around = {"$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/A"}}}}
    tool = make_tool({**describe_object(a={"$ref": "#/$defs/A"}), **around})
    assert load_arguments(tool, '{"a": [[[[[[]]]]]]}').model_dump() == {"a": [[[[[[]]]]]]}


@pytest.mark.long
def test_a_schema_whose_parts_multiply_takes_no_time() -> None:
    """Many values that each take long to check are refused; where a schema stands for many times
    as many objects as it has, they are edited as JSON.
    """
    began = time.process_time()
    nested = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(10)}
    ends = {"d10": {"type": "string"}}
    each_long = {f"p{n}": {"$ref": "#/$defs/d0"} for n in range(2_000)}
    with pytest.raises(SchemaError, match="endless time"):
        build_argument_model({**describe_object(**each_long), "$defs": {**nested, **ends}}, "act")
    made = {
        f"L{level}": describe_object(
            **{
                f"p{n}": {"allOf": [{"$ref": f"#/$defs/L{level + 1}"}, {"title": f"t{n}"}]}
                for n in range(150)
            }
        )
        for level in range(3)
    }
    wide = {
        "$defs": {**made, "L3": {"type": "string"}},
        **describe_object(a={"$ref": "#/$defs/L0"}),
    }
    tool = make_tool(wide)
    given = {"a": {"p1": {"p2": {"p3": "x"}}}}
    assert load_arguments(tool, json.dumps(given)).model_dump() == given
    with pytest.raises(ValidationError):
        load_arguments(tool, json.dumps({"a": {"p1": {"p2": {"p3": 7}}}}))
    assert time.process_time() - began < 5


def test_a_value_that_takes_long_with_its_schema_is_refused() -> None:
    """Long lists of long choices, or of empty objects that could have many fields."""
    began = time.process_time()
    options = [f"o{n}" for n in range(5_000)]
    choices = describe_object(a={"type": "array", "items": {"anyOf": [{"enum": options}]}})
    many = describe_object(**{f"p{n}": {"type": "string"} for n in range(1_000)})
    objects = describe_object(a={"type": "array", "items": many})
    for schema, item in ((choices, "o4999"), (objects, {})):
        tool = make_tool(schema)
        assert load_arguments(tool, json.dumps({"a": [item] * 100})).model_dump() is not None
        with pytest.raises(ValidationError, match="too large or nested"):
            load_arguments(tool, json.dumps({"a": [item] * 15_000}))
    assert time.process_time() - began < 5
