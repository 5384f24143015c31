"""Owners from a CSV file beside the policy, or from a function."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.config.startup import read_policy
from bot.policy.condition_values import Facts
from bot.policy.evaluation import PolicyError, parse
from bot.policy.gates import Approvers, Ask
from tests.policy.test_policy_owners import DEFAULTS, RULE

TABLE = '[owners.service]\nfile = "owners.csv"\nsearch = ["@search"]\n'
FUNCTION = '[owners.service]\nfunction = "acme.services:find"\nsearch = ["@search"]\n'
ROWS = "key,owners\npayments,@payments U0CFO1234\n\n7,@seven\n"


def test_rows_of_the_csv_file_join_the_owners_of_the_table(tmp_path: Path) -> None:
    """The file has a spreadsheet's byte order mark, line ends of Windows and quotes."""
    path = tmp_path / "policy.toml"
    path.write_text(DEFAULTS + TABLE + RULE)
    rows = ROWS.replace("payments,@payments U0CFO1234", 'payments,"@payments, U0CFO1234"')
    (tmp_path / "owners.csv").write_bytes(b"\xef\xbb\xbf" + rows.replace("\n", "\r\n").encode())
    assert read_policy(path).owners["service"] == {
        "payments": Approvers(groups=("payments",), users=("U0CFO1234",)),
        "7": Approvers(groups=("seven",)),
        "search": Approvers(groups=("search",)),
    }


def test_the_policys_digest_covers_the_owners_file() -> None:
    """Other owners are another policy."""
    one, other = (
        parse(DEFAULTS + TABLE + RULE, "p.toml", {"owners.csv": rows})
        for rows in (ROWS, ROWS.replace("@seven", "@eight"))
    )
    assert one.digest != other.digest


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (None, "owners.csv cannot be read; put a CSV file of at most 1 MB there"),
        ("key,owners\n" + "x" * 1_000_000, "owners.csv cannot be read"),
        ("", "owners.csv: write key,owners in its first line, with a comma"),
        ("key;owners\na;@b\n", "owners.csv: write key,owners in its first line"),
        ("key,owners\na,@b,@c\n", "owners.csv: line 2 has 3 columns instead of 2"),
        ('key,owners\na,"@b\n', "owners.csv: unexpected end of data"),
        ("key,owners\na,\n", "owners.csv, line 2: nobody could decide"),
        ("key,owners\na,@b\nc,bob\n", "owners.csv, line 3: 'bob' names nobody"),
        ("key,owners\na,channel\n", "owners.csv, line 2: name people and groups only"),
        ("key,owners\na,@b\na,@c\n", "owners.csv, line 3: 'a' has owners already"),
        ("key,owners\nsearch,@b\n", "owners.csv, line 2: 'search' has owners already"),
    ],
)
def test_a_mistake_in_the_owners_file_is_told_with_its_line(rows: str | None, said: str) -> None:
    """The line of its table in the policy is told, too, and the policy is refused."""
    files = {} if rows is None else {"owners.csv": rows}
    with pytest.raises(PolicyError) as refused:
        parse(DEFAULTS + TABLE + RULE, "p.toml", files)
    assert f"p.toml:4: [owners] service: {said}" in str(refused.value)


@pytest.mark.parametrize("name", ["../owners.csv", "/etc/passwd", "a/b.csv", "", ".env"])
def test_only_an_owners_file_beside_the_policy_is_read(name: str) -> None:
    """No other path is accepted."""
    with pytest.raises(PolicyError, match="write the name of a CSV file beside the policy"):
        parse(DEFAULTS + TABLE.replace("owners.csv", name) + RULE, "p.toml", {name: ROWS})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("find", "write a function of your own"),
        ("acme:", "write a function of your own"),
        ("os:system", "is no function of your own"),
        ("subprocess.x:run", "is no function of your own"),
    ],
)
def test_an_owners_function_must_be_ones_own(name: str, said: str) -> None:
    """It is named with its module, and modules of Python are refused."""
    with pytest.raises(PolicyError, match=said):
        parse(DEFAULTS + FUNCTION.replace("acme.services:find", name) + RULE)


@pytest.mark.parametrize(
    ("service", "found", "who", "note"),
    [
        ("search", ("@other",), Approvers(groups=("search",)), "is @search"),
        ("x", ("@other",), Approvers(groups=("other",)), "is @other"),
        ("x", (), Approvers(), "is nobody: acme.services:find names nobody"),
        ("x", None, Approvers(), "is nobody: acme.services:find has failed"),
        (None, None, Approvers(), "is nobody: it is not in [owners.service]"),
    ],
)
def test_the_table_of_owners_comes_before_the_function(
    service: str | None, found: tuple[str, ...] | None, who: Approvers, note: str
) -> None:
    """What the function found is a fact of the call; without a result nobody may approve."""
    facts = Facts(
        tool="deploy",
        effect="write",
        requester="UBEN00001",
        args={"service": service},
        owners={"service": found},
    )
    policy = parse(DEFAULTS + FUNCTION + RULE)
    judged = policy.judge_call(facts)
    assert isinstance(judged.gate, Ask)
    assert judged.gate.approvers == who
    assert judged.notes[0] == f"the owner of args.service {note}"
    assert policy.get_needed_lookups("deploy", "write", "medium").owners == {"service"}
    assert not policy.get_needed_lookups("other", "write", "medium").owners
