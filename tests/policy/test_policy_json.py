"""Policies, gates and remembered approvals as JSON mean the same when read again."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bot.policy.evaluation import PolicyError, parse
from bot.policy.gates import Ask, dump_gate, load_gate
from bot.toml_file import convert_toml_to_json
from storage.grants import Grant, dump_grant, load_grant
from tests.pages import ROOT, blocks
from tests.policy.builders import asks
from tests.policy.recipes import FIRST, RECIPES
from tests.policy.test_business_hours import HOURS, schedules
from tests.policy.test_policy_names import NAMED_POLICY

POLICIES = {**FIRST, **RECIPES, "hours": HOURS, "names": NAMED_POLICY}
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
moments = st.datetimes(timezones=st.just(UTC))


@pytest.mark.parametrize("title", POLICIES)
def test_a_policy_means_the_same_in_json_and_toml(title: str) -> None:
    """This holds for every policy of the page, to the last condition."""
    text = POLICIES[title]
    assert parse(convert_toml_to_json(text), "p.json").digest == parse(text, "p.toml").digest


@given(
    st.lists(
        st.fixed_dictionaries(
            {"verdict": st.sampled_from(["ask", "allow", "add"])},
            optional={
                "tool": st.sampled_from(["pay", "*", "pay_*"]),
                "when": st.sampled_from(["args.amount > 1.5", "requester in groups.finance"]),
                "approvers": st.just(["@finance", "U01"]),
                "deadline": st.sampled_from(["30m", "2d"]),
                "veto": st.integers(0, 2),
            },
        ),
        max_size=4,
    )
)
def test_random_json_is_accepted_or_refused_like_its_toml(rules: list[dict[str, object]]) -> None:
    """The problems are the same."""

    def outcome(text: str, source: str) -> object:
        try:
            return parse(text, source).digest
        except PolicyError as error:
            return sorted(each.partition(": ")[2] for each in error.problems)

    lines = ['[defaults]\napprovers = ["@leads"]']
    for rule in rules:
        lines += ["[[rule]]", *(f"{key} = {json.dumps(value)}" for key, value in rule.items())]
    written = {"defaults": {"approvers": ["@leads"]}, **({"rule": rules} if rules else {})}
    assert outcome(json.dumps(written), "p.json") == outcome("\n".join(lines), "p.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "p.json:1: this is not JSON"),
        ("[]", "it must be an object"),
        ('{"defaults": {"approvers": ["@a"], "approvers": ["@b"]}}', "a key is given twice"),
        ('{"defaults": {"approvers": []}}', "nobody could decide"),
        ('{"defaults": {"approvers": ["@a"], "veto": NaN}}', "NaN is not a JSON value"),
        ('{"rules": []}', "rules: unknown key"),
    ],
)
def test_json_that_is_no_policy_is_refused(text: str, said: str) -> None:
    """A key given twice is refused as well, and what is no policy in TOML either."""
    with pytest.raises(PolicyError) as found:
        parse(text, "p.json")
    assert any(said in each for each in found.value.problems)


@given(asks, st.none() | schedules, st.booleans(), st.lists(texts, max_size=2).map(tuple))
def test_every_gate_round_trips_through_its_text(
    gate: Ask, hours: object, any_order: bool, added: tuple[str, ...]
) -> None:
    """The text is canonical JSON (RFC 8785), and the same text is read once."""
    update = {"hours": hours, "any_order": any_order, "added": added}
    full = gate.model_copy(update=update)
    said = {"verdict": "ask"} | full.model_dump(mode="json", exclude_defaults=True)
    assert dump_gate(full) == rfc8785.dumps(said).decode()
    assert load_gate(dump_gate(full)) is load_gate(dump_gate(full))
    assert load_gate(dump_gate(full)) == full
    assert dump_gate(load_gate(dump_gate(full))) == dump_gate(full)


@given(
    st.builds(
        Grant,
        team=texts,
        requester=texts,
        tool=texts,
        schema_digest=texts,
        pinned=st.just('{"amount":"5"}'),
        rule=texts,
        channel=texts,
        thread_ts=texts,
        until=moments,
        uses=st.integers(0, 1000),
        call_id=texts,
        given_by=texts,
        given_at=moments,
        revoked_at=st.none() | moments,
        revoked_by=texts,
    )
)
def test_every_remembered_approval_round_trips_through_its_text(grant: Grant) -> None:
    """Its times are exact to the microsecond."""
    assert load_grant(dump_grant(grant)).model_dump() == grant.model_dump()


@pytest.mark.parametrize(
    ("was", "becomes"),
    [('"uses":3', '"uses":"many"'), ('"uses":3', '"uses":3,"more":1'), ('"team":"T",', "")],
)
def test_a_damaged_remembered_approval_is_refused(was: str, becomes: str) -> None:
    """A wrong, unknown or missing field is damage."""
    at = datetime(2026, 3, 1, tzinfo=UTC)
    grant = Grant(
        team="T",
        requester="U1",
        tool="pay",
        schema_digest="d",
        until=at,
        uses=3,
        call_id="c",
        given_by="U2",
        given_at=at,
    )
    text = dump_grant(grant)
    assert was in text
    with pytest.raises(ValidationError):
        load_grant(text.replace(was, becomes))


def test_the_json_example_of_the_page_works() -> None:
    """The example is for other programs."""
    [code] = [
        each
        for each in blocks(ROOT / "docs" / "extending.md", "python")
        if "convert_toml_to_json" in each
    ]
    exec(code, {})
