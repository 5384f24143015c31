"""`countersign doctor` on the operator: who it is, and whether they may decide."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.checks.people_checks import check_operator
from bot.checks.slack import SignInAnswer, build_retrying_client, sign_in_to_slack
from bot.clock import SystemClock
from bot.config.settings import Settings
from bot.policy.evaluation import parse

POLICY = '[defaults]\napprovers = ["@shop-leads"]\n'


def check_operator_lines(
    settings: Settings, operator: str | None, policy: str = POLICY
) -> list[str]:
    """List the lines about that operator under this policy."""
    signed_in = sign_in_to_slack(build_retrying_client(settings), SystemClock())
    assert isinstance(signed_in, SignInAnswer)
    named = settings.model_copy(update={"operator": operator})
    return [str(each) for each in check_operator(named, parse(policy), signed_in.workspace)]


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("UANA00001", "ok    operator: Ana Ruiz also decides at the terminal"),
        ("UBEN00001", "warn  operator: Ben Okafor is not an approver under any rule"),
        ("UNOBODY01", "fail  operator: there is no such person"),
        ("UGUS00001", "fail  operator: Gus Hall is a guest"),
    ],
)
def test_an_operator_who_may_decide_nothing_is_reported(
    settings: Settings, operator: str, expected: str
) -> None:
    """So is an id of nobody or of a guest."""
    [line] = check_operator_lines(settings, operator)
    assert line.startswith(expected)


def test_without_an_operator_there_is_no_line(settings: Settings) -> None:
    """The setting is optional."""
    assert check_operator_lines(settings, None) == []


def test_an_operator_who_may_decide_as_a_channel_member_is_fine(settings: Settings) -> None:
    """That depends on the channel of each request."""
    [line] = check_operator_lines(settings, "UBEN00001", '[defaults]\napprovers = ["channel"]\n')
    assert line.startswith("ok")


def test_a_path_too_long_for_a_socket_is_reported(settings: Settings, tmp_path: Path) -> None:
    """Systems allow about a hundred characters."""
    deep = settings.model_copy(update={"database_url": f"sqlite:///{tmp_path / ('x' * 100)}.db"})
    assert any("too long for a socket" in line for line in check_operator_lines(deep, "UANA00001"))
