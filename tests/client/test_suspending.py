"""Calls that are suspended while people decide: what any framework's adapter is made of."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from countersign import AlreadyTaken, CountersignError, Rejected, Request, Undecided, countersigned
from countersign.adapters import build_missing_package_error
from countersign.context import (
    CallSuspension,
    describe_call_error,
    describe_refusal,
    suspend_undecided_calls,
)
from countersign.decorated import request_approval
from tests.client.shop import Shop, ended
from tests.stories.harness import SUPPORT

DEPLOYED: Counter[str] = Counter()


@countersigned(title="Deploy", effect="Deploy {version} to {env}", channel=SUPPORT, tells_why=True)
def deploy(version: str, env: str = "prod") -> str:
    """Deploy a version of the shop."""
    DEPLOYED[version] += 1
    return f"{version} is on {env}"


@countersigned(title="Deploy", effect="Deploy {version} slowly", channel=SUPPORT)
async def deploy_slowly(version: str) -> str:
    """Deploy a version of the shop, on a loop."""
    DEPLOYED[version] += 1
    return f"{version} is there"


def test_what_is_suspended_waits_for_nobody(shop: Shop) -> None:
    """Undecided, it raises at once, however often it is called, and is asked once. Approved, it
    runs once with the arguments as they were edited, and again gives the same; the same arguments
    under another call's id are another call.
    """
    with suspend_undecided_calls(CallSuspension("thread 1", "call_1")):
        for _ in range(2):
            with pytest.raises(Undecided):
                deploy("7.1")
        assert not request_approval(deploy, {"version": "7.1"}).is_decided
        shop.edit("Deploy 7.1 to prod", version="7.1.1")
        shop.approve("Deploy 7.1.1 to prod", "cleo")
        assert [deploy("7.1"), deploy("7.1")] == ["7.1.1 is on prod"] * 2
    assert DEPLOYED == {"7.1.1": 1}
    with suspend_undecided_calls(CallSuspension("thread 1", "call_2")), pytest.raises(Undecided):
        deploy("7.1")
    DEPLOYED.clear()


def test_a_framework_suspends_in_its_own_way(shop: Shop) -> None:
    """What it raises comes out, also of an async function; where it returns, it is looked again."""

    class Interrupted(Exception):
        """A framework's own."""

    asked: list[Request] = []

    def interrupt(request: Request) -> None:
        asked.append(request)
        if len(asked) < 2:
            raise Interrupted
        shop.approve("Deploy 7.2 slowly")

    with suspend_undecided_calls(CallSuspension("thread 2", "call_1", interrupt)):
        with pytest.raises(Interrupted):
            asyncio.run(deploy_slowly("7.2"))
        assert not asked[0].is_decided
        assert asyncio.run(deploy_slowly("7.2")) == "7.2 is there"
    assert asked[0].id == asked[1].id
    DEPLOYED.clear()


def test_what_is_declined_raises_while_it_is_suspended(shop: Shop) -> None:
    """An adapter tells its framework, also where the function tells why: that nothing was done, or
    that nobody knows.
    """
    with suspend_undecided_calls(CallSuspension("thread 3")):
        with pytest.raises(Undecided):
            deploy("7.3")
        shop.reject("Deploy 7.3 to prod", "not on a Friday")
        with pytest.raises(Rejected, match="not on a Friday"):
            deploy("7.3")
        told = describe_refusal(request_approval(deploy, {"version": "7.3"}))
    assert str(told).startswith("It was not done.")
    assert "not on a Friday" in str(told)
    assert describe_call_error(AlreadyTaken("Somebody else has it.")) == "Somebody else has it."
    assert not DEPLOYED


def test_one_of_two_lives_runs_it_and_the_other_waits(shop: Shop) -> None:
    """The same suspended work goes on in eight threads at once: one effect, told to all."""
    with suspend_undecided_calls(CallSuspension("thread 4", "call_1")):
        with pytest.raises(Undecided):
            deploy("7.4")
        shop.approve("Deploy 7.4 to prod")
        lives = [shop.begin(deploy, "7.4") for _ in range(8)]
        assert {ended(each) for each in lives} == {"7.4 is on prod"}
    assert DEPLOYED == {"7.4": 1}
    DEPLOYED.clear()


def test_only_decorated_functions_are_asked_for() -> None:
    """A function that nobody gated is no mistake that goes unseen; nor is a missing package."""
    with pytest.raises(TypeError, match="print is not decorated"):
        request_approval(print, {})
    assert "pip install 'haystack-ai'" in str(build_missing_package_error("haystack-ai"))
    assert issubclass(Undecided, CountersignError)
