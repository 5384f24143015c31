"""The first policy that `countersign doctor --init` writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.cli.doctor.doctor import write_policy
from bot.policy.evaluation import PolicyError, parse


def test_the_first_policy_works(tmp_path: Path) -> None:
    """--init writes a policy that works, names its approvers, and whose examples work too.

    It never overwrites.
    """
    path = tmp_path / "policy.toml"
    policy = write_policy(path, ["U0123", "@shop-leads"])
    assert policy.default
    assert (policy.default.approvers.users, policy.default.approvers.groups) == (
        ("U0123",),
        ("shop-leads",),
    )
    text = path.read_text()
    assert parse(text).digest == policy.digest
    body = "\n".join(
        line.removeprefix("# ") if '"' in line or "[[" in line else line
        for line in text.splitlines()
    )
    assert [each.gate.verdict for each in parse(body).rules] == ["deny", "ask", "allow"]
    with pytest.raises(FileExistsError):
        write_policy(path, ["U0456"])
    assert path.read_text() == text


@pytest.mark.parametrize("approvers", [[], ["ana"], ['U0123"]\nself_approval = true # ']])
def test_approvers_that_name_nobody_write_nothing(tmp_path: Path, approvers: list[str]) -> None:
    """Approvers that name nobody, or smuggle in other keys, write nothing."""
    with pytest.raises(PolicyError):
        write_policy(tmp_path / "policy.toml", approvers)
    assert not list(tmp_path.iterdir())
