"""Keys of a policy that mean nothing or contradict each other are refused at their line."""

from __future__ import annotations

import pytest

from tests.policy.builders import list_problems

RULE = '[[rule]]\ntool = "x"\nverdict = "ask"\napprovers = ["U01", "U02", "U03"]\n'
WHO = '[defaults]\napprovers = ["@shop-leads"]\n'


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("quorum = 0", "quorum: write 1 or more"),
        ("quorum = -1", "quorum: write 1 or more"),
        ("quorum = 51", "quorum: write 50 or less"),
        ("quorum = 2.0", "quorum: write a whole number"),
        ("quorum = true", "quorum: write a whole number"),
        ('quorum = "2"', "quorum: write a whole number"),
        ("quorum = 4", "quorum: needs more different people than are named"),
        ("silent = ['U02']", "silent: names U02, who is among the approvers"),
        ("quorum = 5\nsilent = ['U04']", "quorum: needs more different people than are named"),
        ("silent = ['channel']", "silent: name people and groups only"),
        ("silent = []", "silent: nobody could decide"),
        *(
            (f"run_at = {wrong!r}", f"run_at: {wrong!r} is not a start time")
            for wrong in ("22:00", "24:00 Europe/Berlin", "22:00  UTC", "Sat 22:00 UTC", "9:00 UTC")
        ),
        ("run_at = 22:00:00", "run_at: write it in quotes"),
        ("run_at = '22:00 Berlin'", "run_at: 'Berlin' is not a time zone"),
        ("remember = [{}]\nrun_at = '22:00 UTC'", "remember: would start calls at any time"),
        ("veto = 0", "veto: write 1 or more"),
        ("veto = 4", "veto: needs 4 rejections, more than there are people"),
        ('reminders = "10m"', "reminders: write a list"),
        ('reminders = ["10"]', "reminders: '10' is not a duration"),
        ('reminders = ["29s"]', "reminders: '29s' is not a duration"),
        ('reminders = ["31d"]', "reminders: '31d' is not a duration"),
        ("reminders = [600]", "reminders: write it in quotes"),
        ('reminders = ["10m", "1h"]', "reminders: comes only when the deadline has passed"),
        (f"reminders = {['1m'] * 11}", "reminders: there are too many"),
        ('escalation = [{after = "30m"}]', "escalation: names no approvers"),
        ('escalation = [{approvers = ["@b"]}]', "escalation: does not say when"),
        (
            'escalation = [{after = "soon", approvers = ["@b"]}]',
            "escalation: 'soon' is not a duration",
        ),
        ('escalation = [{after = "30m", approvers = []}]', "escalation: nobody could decide"),
        ('escalation = [{after = "30m", approvers = ["bob"]}]', "escalation: 'bob' names nobody"),
        (
            'escalation = [{after = "60m", approvers = ["@b"]}]',
            "escalation: comes only when the deadline has passed",
        ),
        (
            'escalation = [{after = "30m", approvers = ["@b"], quorum = 2}]',
            "escalation: unknown key",
        ),
        ('escalation = {after = "30m", approvers = ["@b"]}', "escalation: write a list"),
        ('escalation = ["30m"]', "escalation: write a table"),
        ('editable = "amount"', "editable: write a list"),
        ('editable = ["the amount"]', "editable: write names of fields"),
        ('editable = ["amount", ""]', "editable: write names of fields"),
        ('reasons = "sometimes"', "reasons: write 'never', 'approve', 'reject' or 'always'"),
        ("reasons = true", "reasons: write 'never', 'approve', 'reject' or 'always'"),
        ("remember = true", "remember: write a list"),
        ('remember = [{where = "here"}]', "remember: write 'thread' or 'everywhere'"),
        ('remember = [{lasts = "31d"}]', "remember: '31d' is not a duration"),
        ("remember = [{uses = 0}]", "remember: write 1 or more"),
        ("remember = [{uses = 1001}]", "remember: write 1000 or less"),
        ("remember = [{fields = []}]", "remember: name at least one"),
        ('remember = [{fields = ["a b"]}]', "remember: write names of fields"),
        ('remember = [{field = ["a"]}]', "remember: unknown key"),
        ('risk = "huge"', "risk: write one of low, medium, high"),
        ("risk = []", "risk: write one of low, medium, high"),
        ('channel = "support"', "channel: write a channel id"),
        ('channel = "#Support"', "channel: write a channel id"),
        ("channel = []", "channel: write a channel id"),
        ('channel = ["C0123", "D0123"]', "channel: write a channel id"),
        ('requester = "ben"', "requester: write a user id"),
        ('requester = "channel"', "requester: write a user id"),
        ("requester = []", "requester: write a user id"),
        ("when = true", "when: write it in quotes"),
        ('when = ""', "when: "),
        (
            'when = "amount > 100"',
            "when: names 'amount', which is unknown; there are args, channel",
        ),
        ('when = "args.amount >"', "when: "),
        (f'when = "{"args.a || " * 120}args.a"', "when: is longer than 1024 bytes; split the rule"),
        (
            'when = "args.a.all(x, args.b.all(y, true))"',
            "when: has .all() inside another list operation",
        ),
        ('when = \'spent("x", "a", "24") > 5\'', "when: '24' is not a window"),
        ('when = \'spent("x", args.f, "24h") > 5\'', "when: needs words in quotes"),
        ('when = "groups[args.g].size() > 0"', "when: needs a literal group"),
    ],
)
def test_values_that_mean_nothing_are_refused(line: str, said: str) -> None:
    """The refusal names their line, their key, and what to write instead."""
    (found,) = list_problems(f"{RULE}{line}\n{WHO}")
    assert found.startswith("  p.toml:5: rule 1 ")
    assert said in found


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ("[]", "name at least one"),
        ('["@a"]', "write a table"),
        ("[{quorum = 2}]", "names no approvers"),
        ("[{approvers = []}]", "nobody could decide"),
        ('[{approvers = ["@a"], veto = 2}]', "unknown key"),
        ('[{approvers = ["@a"], quorum = 0}]', "write 1 or more"),
        ('[{approvers = ["U01"], quorum = 2}]', "needs more different people than are named"),
        (
            '[{approvers = ["U01"]}, {approvers = ["U01", "U01"]}]',
            "needs more different people than are named",
        ),
        (
            '[{approvers = ["requester"]}, {approvers = ["U01"], quorum = 2}]',
            "needs more different people",
        ),
        (f"[{', '.join(['{approvers = [`@a`]}'] * 11)}]".replace("`", '"'), "there are too many"),
    ],
)
def test_stages_that_nobody_could_meet_are_refused(stages: str, said: str) -> None:
    """They have no people, or need more votes than they have people."""
    (found,) = list_problems(f'{WHO}\n[[rule]]\ntool = "x"\nverdict = "ask"\nstages = {stages}\n')
    assert found.startswith("  p.toml:7: rule 1 stages: ")
    assert said in found


@pytest.mark.parametrize(
    ("text", "line", "key", "said"),
    [
        (
            f'{RULE}stages = [{{approvers = ["@a"]}}]\n{WHO}',
            5,
            "rule 1 stages",
            "name their own approvers",
        ),
        (
            f'{WHO}stages = [{{approvers = ["@a"]}}]\n',
            3,
            "[defaults] stages",
            "name their own approvers",
        ),
        (
            '[defaults]\nstages = [{approvers = ["@a"]}]\n[[rule]]\ntool = "x"\nverdict = '
            '"ask"\nquorum = 2\n',
            6,
            "rule 1 quorum",
            "means nothing with the stages of [defaults]",
        ),
        (
            '[defaults]\napprovers = ["U01"]\nquorum = 2\n',
            3,
            "[defaults] quorum",
            "more different people",
        ),
        (
            '[defaults]\napprovers = ["U01"]\nveto = 2\n',
            3,
            "[defaults] veto",
            "nobody could say no",
        ),
        (
            f'{WHO}veto = 2\n[[rule]]\ntool = "x"\nverdict = "ask"\napprovers = ["U01"]\n',
            7,
            "rule 1 approvers",
            "no",
        ),
        (
            f'{WHO}deadline = "10m"\nreminders = ["10m"]\n',
            4,
            "[defaults] reminders",
            "deadline has passed",
        ),
        (
            f'{WHO}[[rule]]\ntool = "x"\nverdict = "allow"\nquorum = 2\n',
            6,
            "rule 1 quorum",
            "means nothing with",
        ),
        (
            f'{WHO}[[rule]]\ntool = "x"\nverdict = "deny"\nreason = "."\nveto = 2\n',
            7,
            "rule 1 veto",
            "means nothing",
        ),
        (
            f'{WHO}[[rule]]\ntool = "x"\nverdict = "once"\nremember = [{{}}]\n',
            6,
            "rule 1 remember",
            "always remembers",
        ),
        (
            f'{WHO}[[rule]]\neffect = "destructive"\nverdict = "once"\n',
            5,
            "rule 1 verdict",
            "asked every time",
        ),
        (
            f'{WHO}[[rule]]\neffect = "destructive"\nverdict = "ask"\nremember = [{{}}]\n',
            6,
            "rule 1 remember",
            "asked every time",
        ),
        (
            f'{WHO}[[rule]]\ntool = "x"\nverdict = "ask"\nquorum = 2\nremember = [{{}}]\n',
            7,
            "rule 1 remember",
            "one",
        ),
        (
            f'{WHO}[[rule]]\ntool = "x"\nverdict = "once"\nreason = "a"\n',
            6,
            "rule 1 reason",
            "means nothing with",
        ),
        (
            f'{WHO}[[rule]]\ntool = "x"\n',
            3,
            "rule 1 verdict",
            'write "allow", "deny", "ask", "once" or "add"',
        ),
    ],
)
def test_keys_that_contradict_each_other_are_refused(
    text: str, line: int, key: str, said: str
) -> None:
    """They are in [defaults], too; no key is ignored silently."""
    (found,) = list_problems(text)
    assert found.startswith(f"  p.toml:{line}: {key}: ")
    assert said in found
