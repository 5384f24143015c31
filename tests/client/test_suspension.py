"""Calls that are suspended while people decide, which adapters of frameworks use."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from pydantic import ValidationError

from countersign import AlreadyTaken, CountersignError, Rejected, Request, Undecided, countersigned
from countersign.adapters import build_missing_package_error
from countersign.context import (
    CallSuspension,
    describe_call_error,
    describe_refusal,
    suspend_undecided_calls,
)
from countersign.decorated import request_approval
from tests.client.shop import Shop, get_result
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


class Fleet:
    """A function with parameters that people are not shown, as a tool of an agent."""

    @countersigned(effect="Move {ship} to {port}", channel=SUPPORT, without={"self", "context"})
    def deploy_ship(self, context: object, ship: str, /, port: str = "Kiel") -> str:
        """Move a ship."""
        return f"{ship} is in {port}"


def test_a_call_is_found_by_the_arguments_that_the_model_gives(shop: Shop) -> None:
    """A framework adds the others when it calls the function, by position or by name."""
    with suspend_undecided_calls(CallSuspension("thread 5", "call_1")):
        asked = request_approval(Fleet().deploy_ship, {"ship": "Ida"})
        with pytest.raises(Undecided) as told:
            Fleet().deploy_ship(object(), "Ida")
        with pytest.raises(ValidationError, match="port_of_call"):
            request_approval(Fleet.deploy_ship, {"ship": "Ida", "port_of_call": "Kiel"})
    assert told.value.request is not None
    assert told.value.request.id == asked.id


def test_a_suspended_call_does_not_wait_for_the_decision(shop: Shop) -> None:
    """It raises at once and is asked once.

    Approved, it runs once with the edited arguments, and its result is repeated. Under another
    call's id the same arguments are another call.
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


def test_a_framework_can_raise_its_own_interruption(shop: Shop) -> None:
    """Its exception comes out, also of an async function.

    If it returns, the decision is looked up again.
    """

    class Interrupted(Exception):
        """A framework's own exception."""

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


def test_a_rejected_suspended_call_raises(shop: Shop) -> None:
    """Though the function returns reasons: the adapter tells its framework that nothing was done,
    or that nobody knows.
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


def test_a_suspended_call_resumed_twice_runs_once(shop: Shop) -> None:
    """Eight threads resume the same work; all of them get the one result."""
    with suspend_undecided_calls(CallSuspension("thread 4", "call_1")):
        with pytest.raises(Undecided):
            deploy("7.4")
        shop.approve("Deploy 7.4 to prod")
        lives = [shop.start(deploy, "7.4") for _ in range(8)]
        assert {get_result(each) for each in lives} == {"7.4 is on prod"}
    assert DEPLOYED == {"7.4": 1}
    DEPLOYED.clear()


def test_only_decorated_functions_can_be_asked_for() -> None:
    """Neither an undecorated function nor a missing package goes unnoticed."""
    with pytest.raises(TypeError, match="print is not decorated"):
        request_approval(print, {})
    assert "pip install 'haystack-ai'" in str(build_missing_package_error("haystack-ai"))
    assert issubclass(Undecided, CountersignError)
