"""What `countersign doctor` says of the operator: whether there is one, and whether they may."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.checks.people_checks import check_operator
from bot.checks.slack import SignInAnswer, build_retrying_client, sign_in_to_slack
from bot.clock import SystemClock
from bot.config.settings import Settings
from bot.policy.evaluation import parse

POLICY = '[defaults]\napprovers = ["@shop-leads"]\n'


def said(settings: Settings, operator: str | None, policy: str = POLICY) -> list[str]:
    """What is said of that operator under this policy."""
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
def test_who_the_operator_is(settings: Settings, operator: str, expected: str) -> None:
    """An id that is wrong, or of somebody who may decide nothing, is told before it is needed."""
    [line] = said(settings, operator)
    assert line.startswith(expected)


def test_no_operator_is_no_line(settings: Settings) -> None:
    """Nobody has to name one."""
    assert said(settings, None) == []


def test_members_of_a_channel_may_decide(settings: Settings) -> None:
    """Where a channel's members decide, it hangs on where it is asked."""
    [line] = said(settings, "UBEN00001", '[defaults]\napprovers = ["channel"]\n')
    assert line.startswith("ok")


def test_a_path_too_long_for_a_socket(settings: Settings, tmp_path: Path) -> None:
    """Systems allow about a hundred characters; the doctor says so before the bot does."""
    deep = settings.model_copy(update={"database_url": f"sqlite:///{tmp_path / ('x' * 100)}.db"})
    assert any("too long for a socket" in line for line in said(deep, "UANA00001"))
