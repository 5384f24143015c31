"""What else a policy can be asked: its people, default gate, look-ups, and a gate's rule."""

from __future__ import annotations

import pytest

from bot.policy.condition_values import Facts
from bot.policy.evaluation import Policy, PolicyError, parse
from bot.policy.gates import Ask
from tests.policy.builders import list_problems, make_facts

WHO = '[defaults]\napprovers = ["@leads"]\n'
NOTES = '[[rule]]\nname = "notes"\ntool = "note"\nverdict = "ask"\nremember = [{}]\n'
NIGHT = (
    '[[rule]]\nname = "night"\ntool = "note"\nverdict = "add"\n'
    'stages = [{approvers = ["@legal"]}]\n'
)
SOONER = '[[rule]]\nname = "soon"\ntool = "note"\nverdict = "add"\ndeadline = "10m"\n'
DENY = '[[rule]]\ntool = "*"\nverdict = "deny"\nreason = "No."\n'


def get_ask_gate(policy: Policy, tool: str = "note", effect: str = "write") -> Ask:
    """The gate of a call of which nothing else is known."""
    found = policy.get_gate(Facts(tool=tool, effect=effect, requester="U1", args={}))
    assert isinstance(found, Ask)
    return found


def test_rules_and_defaults_that_name_a_person_are_listed() -> None:
    """The id may stand anywhere in the rule."""
    text = '[[rule]]\nname = "one"\nverdict = "ask"\napprovers = ["U0123"]\n'
    policy = parse('[defaults]\napprovers = ["U0123", "U0456"]\n' + text)
    assert policy.list_rules_containing("U0123") == ["rule 'one'", "the defaults"]
    assert policy.list_rules_containing("U0456") == ["the defaults"]
    assert policy.list_rules_containing("U0789") == []
    assert parse(DENY).list_rules_containing("U0123") == []


def test_the_default_gate_has_the_additions_that_match() -> None:
    """There is none without [defaults]."""
    policy = parse(WHO + NOTES + NIGHT + DENY)
    assert policy.default is not None
    assert parse(DENY).build_default_ask_gate(make_facts()) is None
    found = policy.build_default_ask_gate(make_facts(tool="note"))
    assert found is not None
    assert [stage.approvers.groups for stage in found.stages] == [("leads",), ("legal",)]
    assert policy.build_default_ask_gate(make_facts(tool="put")) == policy.default
    unsure = NIGHT.replace('tool = "note"', 'requester = "@gone"')
    doubtful = parse(WHO + unsure).build_default_ask_gate(make_facts())
    assert doubtful is not None
    assert len(doubtful.stages) == 2


def test_an_unknown_effect_gets_the_additions_of_destructive_calls() -> None:
    """This is about the default gate."""
    for effect, stages in (("destructive", 2), ("write", 1)):
        adds = NIGHT.replace('tool = "note"', f'effect = "{effect}"')
        found = parse(WHO + adds).build_default_ask_gate(make_facts(effect="odd"))
        assert found is not None
        assert len(found.stages) == stages


def test_destructive_calls_and_several_approvers_get_no_offer() -> None:
    """Other gates offer what their rule does."""
    offers = NOTES.replace('tool = "note"\n', "")
    assert get_ask_gate(parse(WHO + offers)).remember
    assert get_ask_gate(parse(WHO + offers), effect="read").remember
    assert not get_ask_gate(parse(WHO + offers), effect="destructive").remember
    assert not get_ask_gate(parse(WHO + offers), effect="odd").remember
    assert not get_ask_gate(parse(WHO + offers + NIGHT)).remember


def test_a_rules_digest_covers_its_condition_and_additions() -> None:
    """A gate that no rule makes any more has none."""
    plain, added = parse(WHO + NOTES), parse(WHO + NOTES + SOONER)
    gates = get_ask_gate(plain), get_ask_gate(added)
    sources = [plain.find_rule_digest(gates[0]), added.find_rule_digest(gates[1])]
    assert len({*sources, ""}) == 3
    assert added.find_rule_digest(gates[0]) == sources[0]  # the same where nothing is added
    assert plain.find_rule_digest(gates[1]) == ""
    narrower = NOTES.replace("verdict", 'risk = ["low"]\nverdict')
    assert parse(WHO + narrower).find_rule_digest(gates[0]) not in ("", sources[0])
    later = SOONER.replace("verdict", 'risk = ["low"]\nverdict')
    assert parse(WHO + NOTES + later).find_rule_digest(gates[1]) not in ("", sources[1])
    default = get_ask_gate(plain, "put")
    assert plain.find_rule_digest(default) == added.find_rule_digest(default) != ""
    assert plain.find_rule_digest(default.model_copy(update={"deadline": 61})) == ""
    two = parse(WHO + NOTES + NOTES.replace("note", "put").replace("[{}]", "[]"))
    assert len({two.find_rule_digest(get_ask_gate(two, tool)) for tool in ("note", "put")}) == 2


def test_every_gate_of_a_policy_is_listed() -> None:
    """The rules' come in order, then that of the defaults, and those of additions to the first."""
    policy = parse(WHO + NOTES + NIGHT)
    rules = [each.rule for each in policy.asks()]
    assert rules == ["notes", "default", "night"]
    assert len(policy.asks()[2].stages) == 1
    sooner = parse(WHO + NOTES + SOONER).asks()
    assert [(each.rule, each.added) for each in sooner[2:]] == [("notes", ("soon",))]
    late = SOONER.replace('"10m"', '"50m"\nescalation = [{after = "5m", approvers = ["@late"]}]')
    [*_, added] = parse(WHO + NOTES + late).asks()
    assert [each.after for each in added.escalation] == [300]
    assert parse(DENY).asks() == []
    assert parse(DENY + SOONER).asks() == []


def test_only_rules_that_may_match_need_look_ups() -> None:
    """An unknown effect may be any."""
    rule = 'tool = "note"\neffect = "write"\nrequester = "@staff"\nverdict = "allow"\n'
    policy = parse(f"{WHO}[[rule]]\n{rule}")
    found = {
        (tool, effect): bool(policy.get_needed_lookups(tool, effect, "low").groups)
        for tool, effect in (("note", "write"), ("note", "odd"), ("note", "read"), ("put", "write"))
    }
    assert [pair for pair, needed in found.items() if needed] == [
        ("note", "write"),
        ("note", "odd"),
    ]


def test_the_digest_covers_the_shared_channels() -> None:
    """These are the channels shared with others in which requests are worked on."""
    one = parse('shared_channels = ["C0PARTNER"]\n' + WHO)
    other = parse('shared_channels = ["C0OTHER1"]\n' + WHO)
    assert len({each.digest for each in (one, other, parse(WHO))}) == 3


def test_a_denial_in_doubt_says_so_in_its_reason() -> None:
    """One that surely applies gives its own reason."""
    deny = '[[rule]]\nname = "out"\nverdict = "deny"\nreason = "No."\n{}\n'
    sure, doubt = (
        parse(WHO + deny.format(line)).get_gate(make_facts())
        for line in ("", 'requester = "@gone"')
    )
    assert (sure.verdict, doubt.verdict) == ("deny", "deny")
    assert sure.model_dump()["reason"] == "No."
    assert "is not known whether 'out' applies" in doubt.model_dump()["reason"]


def test_policies_nested_too_deeply_are_refused_with_a_line() -> None:
    """This holds for TOML and JSON."""
    assert list_problems("x = " + "[" * 100_000)[0].lstrip().startswith("p.toml:1: ")
    for text in ("{", "[" * 100_000, '{"a": 1, "a": 2}'):
        with pytest.raises(PolicyError) as found:
            parse(text, "p.json")
        assert "p.json" in str(found.value).splitlines()[1]
