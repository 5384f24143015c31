"""Arguments that a JSON Schema describes: what is taken, refused, kept, and shown to the model."""

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

TAKEN = [(name, given) for name, each in SAMPLES.items() for given in each.taken]
REFUSED = [
    (name, at, given) for name, each in SAMPLES.items() for at, given in each.refused.items()
]


def tool_of(schema: dict[str, Any], effect: str = "Act") -> Tool[Any]:
    """A tool that takes what the schema describes, and does nothing."""

    def act(args: Any, context: ToolContext) -> None:
        return None

    model = build_argument_model(schema, "act")
    return Tool("act", "Act", effect, Effect.WRITE, model, act)


def fields(**properties: Any) -> dict[str, Any]:
    """The schema of an object with these optional properties."""
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(("name", "given"), TAKEN)
def test_what_is_given_is_kept(name: str, given: dict[str, Any]) -> None:
    """What a schema takes comes back as it was given, before and after it was stored."""
    tool = tool_of(SAMPLES[name].schema)
    args = load_arguments(tool, json.dumps(given))
    assert args.model_dump() == given
    stored = dump_arguments(args)
    again = load_arguments(tool, stored)
    assert dump_arguments(again) == stored
    assert again.model_dump(mode="json") == given
    assert tool.arguments.model_validate(given).model_dump() == given


@pytest.mark.parametrize(("name", "at", "given"), REFUSED)
def test_what_does_not_fit_is_refused_where_it_stands(
    name: str, at: str, given: dict[str, Any]
) -> None:
    """An error names the value that does not fit."""
    with pytest.raises(ValidationError) as refused:
        load_arguments(tool_of(SAMPLES[name].schema), json.dumps(given))
    [error] = refused.value.errors()
    assert ".".join(map(str, error["loc"])) == at


def test_numbers_stay_what_they_are() -> None:
    """Whole numbers and others, small and large, are the same number after a way through the
    record; one that would not be is refused.
    """
    tool = tool_of(fields(n={"type": "number"}, i={"type": "integer"}, any={}))
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
    steps = tool_of(fields(i={"type": "integer", "multipleOf": 0.5}))
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
def test_a_step_is_counted_digit_by_digit(step: float, fits: list[Any], others: list[Any]) -> None:
    """An amount in cents fits a step of 0.01, also where no machine divides it without a rest."""
    tool = tool_of(fields(n={"type": "number", "multipleOf": step}))
    for value in fits:
        assert load_arguments(tool, json.dumps({"n": value})).model_dump() == {"n": value}
    for value in others:
        with pytest.raises(ValidationError, match="multiple of"):
            load_arguments(tool, json.dumps({"n": value}))


def test_keys_that_a_pattern_names() -> None:
    """They are given and kept where no other keys are, at the top and within; others are not."""
    labels = {"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False}
    inner = {"type": "object", "properties": {"a": {"type": "string"}}, **labels}
    schema = fields(inner=inner, a={"type": "string"}) | labels
    tool = tool_of(schema)
    fits = {"x1": 1, "inner": {"a": "b", "x2": 2}}
    assert load_arguments(tool, json.dumps(fits)).model_dump() == fits
    for wrong in ({"y": 1}, {"x1": "one"}, {"inner": {"y": 1}}, {"inner": {"x2": "two"}}):
        with pytest.raises(ValidationError):
            load_arguments(tool, json.dumps(wrong))
    assert (
        explain_incomplete_display(tool, dump_arguments(load_arguments(tool, json.dumps(fits))), {})
        == ""
    )


def test_null_stands_for_not_given_where_it_is_none_of_the_values() -> None:
    """A model that writes null for what it leaves out sends nothing; a null that counts is kept."""
    tool = tool_of(CREATE_ISSUE.schema)
    given = {"repo": "a/b", "title": "x", "priority": None, "body": None, "due date": None}
    args = load_arguments(tool, json.dumps(given))
    assert args.model_dump() == {"repo": "a/b", "title": "x", "body": None}
    with pytest.raises(ValidationError):
        load_arguments(tool, json.dumps({"repo": "a/b", "title": None}))


def test_the_model_is_given_the_schema() -> None:
    """The model of the agent reads the schema's own words, in a form that providers take."""
    schema = {**CREATE_ISSUE.schema, "anyOf": [{"required": ["repo"]}]}
    shown = tool_of(schema).schema()
    assert shown["type"] == "object"
    assert "anyOf" not in shown
    assert shown["additionalProperties"] is False
    assert shown["properties"]["priority"] == {"enum": ["low", "high"]}
    assert shown["properties"]["labels"]["items"] == {"$ref": "#/$defs/Label"}
    assert "due date" in shown["properties"]
    assert shown["$defs"]["Label"]["enum"] == ["bug", "feature"]
    assert set(shown["required"]) >= {"repo", "title"}
    assert tool_of({"type": "object"}).schema().get("additionalProperties") is not False


def test_another_schema_is_another_tool() -> None:
    """The digest of a call changes with its schema, also with what no field can say."""
    digests = {
        tool_of(each).schema_digest()
        for each in (
            fields(a={"type": "string"}),
            fields(a={"type": "string", "maxLength": 5}),
            {**fields(a={"type": "string"}), "minProperties": 1},
        )
    }
    assert len(digests) == 3
    assert build_argument_model(fields(), "act") is build_argument_model(fields(), "act")


def test_the_effect_is_told_by_fields() -> None:
    """A sentence is filled in by the names of the fields."""
    tool = tool_of(CREATE_ISSUE.schema, "Open {title} in {repo}")
    args = load_arguments(tool, json.dumps({"repo": "a/b", "title": "x"}))
    assert tool.effect_sentence(args) == "Open x in a/b"


def test_no_error_repeats_a_value() -> None:
    """Sentences name what is expected and not what was given, which may be a secret."""
    schema = fields(a={"enum": ["x"]}, b={"not": {"const": "s3cret"}}, c={"format": "email"})
    given = {"a": "s3cret", "b": "s3cret", "c": "s3cret"}
    with pytest.raises(ValidationError) as refused:
        load_arguments(tool_of(schema), json.dumps(given))
    told = [each["msg"] for each in refused.value.errors(include_input=False)]
    assert told
    assert not [each for each in told if "s3cret" in each]


REFUSED_SCHEMAS: dict[str, dict[str, Any]] = {
    "another document": fields(a={"$ref": "https://schemas.example/a.json"}),
    "which is not in it": fields(a={"$ref": "#/$defs/None"}),
    "leads to itself": {**fields(a={"$ref": "#/$defs/A"}), "$defs": {"A": {"$ref": "#/$defs/A"}}},
    "bounded time": fields(a={"type": "string", "pattern": "(?=(a+)+b)"}),
    "not valid at": fields(a={"type": "text"}),
    "not one of an object": {"type": "array"},
    "characters": fields(a={"description": "x" * 100_000}),
    "is not JSON": {"type": {1, 2}},
    "endless time": {**fields(a={}), "unevaluatedProperties": False},
}


@pytest.mark.parametrize("why", REFUSED_SCHEMAS)
def test_a_schema_that_cannot_be_used_is_refused(why: str) -> None:
    """A schema that is wrong, reaches outside or cannot be checked in time is refused in words."""
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
def test_old_keywords_in_an_odd_form_make_a_schema_invalid(odd: dict[str, Any]) -> None:
    """They are refused like any other, whatever they would have been merged with."""
    with pytest.raises(SchemaError, match="not valid at"):
        build_argument_model({**fields(a={"type": "string"}), **odd}, "act")


LONG = {"type": "string", "maxLength": 3.0}
BOUNDS = [
    (LONG, "abcd", "at most 3 characters"),
    ({"type": "array", "maxItems": 1.0}, [1, 2], "at most 1 item"),
    ({"type": "string", "minLength": 2.0**80}, "abcd", "one of the forms"),
    ({"type": "array", "minItems": 10**20}, [1], "one of the forms"),
    ({"type": "integer", "minimum": 10**400}, 5, "one of the forms"),
    ({"type": "number", "exclusiveMaximum": -(10**400)}, 5, "one of the forms"),
    ({"type": "integer", "multipleOf": 10**400}, 5, "one of the forms"),
]


@pytest.mark.parametrize(("schema", "value", "told"), BOUNDS, ids=lambda each: str(each)[:40])
def test_a_bound_may_be_any_number(schema: dict[str, Any], value: Any, told: str) -> None:
    """Written with a point, or beyond all that machines reckon with: it bounds, and is told."""
    with pytest.raises(ValidationError, match=told):
        load_arguments(tool_of(fields(a=schema)), json.dumps({"a": value}))


def test_a_schema_that_grows_when_it_is_followed_is_refused() -> None:
    """References that double at each step, and nesting without end, cost no time."""
    doubling = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(40)
    }
    ends = {"d40": {"type": "string", "const": "x"}}
    schema = {**fields(a={"$ref": "#/$defs/d0"}), "$defs": {**doubling, **ends}}
    with pytest.raises(SchemaError, match="endless time"):
        build_argument_model(schema, "act")
    both = json.loads(json.dumps(schema).replace("anyOf", "allOf"))
    with pytest.raises(SchemaError, match="too many others"):
        build_argument_model(both, "act")
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(30):
        deep = {"type": "array", "items": deep}
    with pytest.raises(SchemaError, match="levels deep"):
        build_argument_model(fields(a=deep), "act")
    around = {"$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/A"}}}}
    tool = tool_of({**fields(a={"$ref": "#/$defs/A"}), **around})
    assert load_arguments(tool, '{"a": [[[[[[]]]]]]}').model_dump() == {"a": [[[[[[]]]]]]}


@pytest.mark.long
def test_a_schema_whose_parts_multiply_takes_no_time() -> None:
    """Many values that each take long to look at are refused; objects that would be many times as
    many as the schema has are JSON.
    """
    began = time.process_time()
    nested = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(10)}
    ends = {"d10": {"type": "string"}}
    each_long = {f"p{n}": {"$ref": "#/$defs/d0"} for n in range(2_000)}
    with pytest.raises(SchemaError, match="endless time"):
        build_argument_model({**fields(**each_long), "$defs": {**nested, **ends}}, "act")
    made = {
        f"L{level}": fields(
            **{
                f"p{n}": {"allOf": [{"$ref": f"#/$defs/L{level + 1}"}, {"title": f"t{n}"}]}
                for n in range(150)
            }
        )
        for level in range(3)
    }
    wide = {"$defs": {**made, "L3": {"type": "string"}}, **fields(a={"$ref": "#/$defs/L0"})}
    tool = tool_of(wide)
    given = {"a": {"p1": {"p2": {"p3": "x"}}}}
    assert load_arguments(tool, json.dumps(given)).model_dump() == given
    with pytest.raises(ValidationError):
        load_arguments(tool, json.dumps({"a": {"p1": {"p2": {"p3": 7}}}}))
    assert time.process_time() - began < 5


def test_a_value_that_multiplies_with_its_schema_takes_no_time() -> None:
    """Long lists of long choices, and of empty objects that could have many fields, are refused."""
    began = time.process_time()
    options = [f"o{n}" for n in range(5_000)]
    choices = fields(a={"type": "array", "items": {"anyOf": [{"enum": options}]}})
    many = fields(**{f"p{n}": {"type": "string"} for n in range(1_000)})
    objects = fields(a={"type": "array", "items": many})
    for schema, item in ((choices, "o4999"), (objects, {})):
        tool = tool_of(schema)
        assert load_arguments(tool, json.dumps({"a": [item] * 100})).model_dump() is not None
        with pytest.raises(ValidationError, match="too large or nested"):
            load_arguments(tool, json.dumps({"a": [item] * 15_000}))
    assert time.process_time() - began < 5
