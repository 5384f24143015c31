"""What else a policy tells: whom it names, what it falls back to, which rule a gate is of."""

from __future__ import annotations

import pytest

from bot.policy.condition_values import Facts
from bot.policy.evaluation import Policy, PolicyError, parse
from bot.policy.gates import Ask
from tests.policy.builders import facts, problems

WHO = '[defaults]\napprovers = ["@leads"]\n'
NOTES = '[[rule]]\nname = "notes"\ntool = "note"\nverdict = "ask"\nremember = [{}]\n'
NIGHT = (
    '[[rule]]\nname = "night"\ntool = "note"\nverdict = "add"\n'
    'stages = [{approvers = ["@legal"]}]\n'
)
SOONER = '[[rule]]\nname = "soon"\ntool = "note"\nverdict = "add"\ndeadline = "10m"\n'
DENY = '[[rule]]\ntool = "*"\nverdict = "deny"\nreason = "No."\n'


def asked(policy: Policy, tool: str = "note", effect: str = "write") -> Ask:
    """What it asks for a call of which nothing else is known."""
    found = policy.get_gate(Facts(tool=tool, effect=effect, requester="U1", args={}))
    assert isinstance(found, Ask)
    return found


def test_where_somebody_is_named() -> None:
    """Each rule with that id anywhere in it, and the defaults."""
    text = '[[rule]]\nname = "one"\nverdict = "ask"\napprovers = ["U0123"]\n'
    policy = parse('[defaults]\napprovers = ["U0123", "U0456"]\n' + text)
    assert policy.list_rules_containing("U0123") == ["rule 'one'", "the defaults"]
    assert policy.list_rules_containing("U0456") == ["the defaults"]
    assert policy.list_rules_containing("U0789") == []
    assert parse(DENY).list_rules_containing("U0123") == []


def test_what_it_falls_back_to() -> None:
    """The defaults, with what matching rules add, and not what others do; none without them."""
    policy = parse(WHO + NOTES + NIGHT + DENY)
    assert policy.default is not None
    assert parse(DENY).build_default_ask_gate(facts()) is None
    found = policy.build_default_ask_gate(facts(tool="note"))
    assert found is not None
    assert [stage.approvers.groups for stage in found.stages] == [("leads",), ("legal",)]
    assert policy.build_default_ask_gate(facts(tool="put")) == policy.default
    unsure = NIGHT.replace('tool = "note"', 'requester = "@gone"')
    doubtful = parse(WHO + unsure).build_default_ask_gate(facts())
    assert doubtful is not None
    assert len(doubtful.stages) == 2


def test_a_fall_back_for_an_effect_nobody_knows() -> None:
    """What is added to what cannot be undone is added to it, too."""
    for effect, stages in (("destructive", 2), ("write", 1)):
        adds = NIGHT.replace('tool = "note"', f'effect = "{effect}"')
        found = parse(WHO + adds).build_default_ask_gate(facts(effect="odd"))
        assert found is not None
        assert len(found.stages) == stages


def test_what_cannot_be_undone_is_not_remembered() -> None:
    """Nor what takes several people; else a gate offers what its rule does."""
    offers = NOTES.replace('tool = "note"\n', "")
    assert asked(parse(WHO + offers)).remember
    assert asked(parse(WHO + offers), effect="read").remember
    assert not asked(parse(WHO + offers), effect="destructive").remember
    assert not asked(parse(WHO + offers), effect="odd").remember
    assert not asked(parse(WHO + offers + NIGHT)).remember


def test_which_rule_a_gate_is_of() -> None:
    """That of the rule and of what adds to it: another condition of either makes it another."""
    plain, added = parse(WHO + NOTES), parse(WHO + NOTES + SOONER)
    gates = asked(plain), asked(added)
    sources = [plain.find_rule_digest(gates[0]), added.find_rule_digest(gates[1])]
    assert len({*sources, ""}) == 3
    assert added.find_rule_digest(gates[0]) == sources[0]  # as it is where nothing is added
    assert plain.find_rule_digest(gates[1]) == ""
    narrower = NOTES.replace("verdict", 'risk = ["low"]\nverdict')
    assert parse(WHO + narrower).find_rule_digest(gates[0]) not in ("", sources[0])
    later = SOONER.replace("verdict", 'risk = ["low"]\nverdict')
    assert parse(WHO + NOTES + later).find_rule_digest(gates[1]) not in ("", sources[1])
    default = asked(plain, "put")
    assert plain.find_rule_digest(default) == added.find_rule_digest(default) != ""
    assert plain.find_rule_digest(default.model_copy(update={"deadline": 61})) == ""
    two = parse(WHO + NOTES + NOTES.replace("note", "put").replace("[{}]", "[]"))
    assert len({two.find_rule_digest(asked(two, tool)) for tool in ("note", "put")}) == 2


def test_every_gate_there_is() -> None:
    """Of the rules in their order, of the defaults, and of what adds to the first of them."""
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


def test_what_has_to_be_looked_up() -> None:
    """Only what rules name that may be about such a call; an effect nobody knows may be any."""
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


def test_what_is_about_a_channel_others_read() -> None:
    """Where requests of shared channels are worked on is part of what a policy means, if it says
    so.
    """
    one = parse('shared_channels = ["C0PARTNER"]\n' + WHO)
    other = parse('shared_channels = ["C0OTHER1"]\n' + WHO)
    assert len({each.digest for each in (one, other, parse(WHO))}) == 3


def test_doubt_is_told_with_its_reason() -> None:
    """A denial that could not be told says so; one that applies gives its own reason."""
    deny = '[[rule]]\nname = "out"\nverdict = "deny"\nreason = "No."\n{}\n'
    sure, doubt = (
        parse(WHO + deny.format(line)).get_gate(facts()) for line in ("", 'requester = "@gone"')
    )
    assert (sure.verdict, doubt.verdict) == ("deny", "deny")
    assert sure.model_dump()["reason"] == "No."
    assert "is not known whether 'out' applies" in doubt.model_dump()["reason"]


def test_what_is_nested_too_deeply_is_refused() -> None:
    """With its line, in either language."""
    assert problems("x = " + "[" * 100_000)[0].lstrip().startswith("p.toml:1: ")
    for text in ("{", "[" * 100_000, '{"a": 1, "a": 2}'):
        with pytest.raises(PolicyError) as found:
            parse(text, "p.json")
        assert "p.json" in str(found.value).splitlines()[1]
