"""Functions that run once people have approved the call, and as they approved it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from functools import partial
from typing import Any

import pytest

from countersign import (
    AlreadyTaken,
    DidNotWork,
    Expired,
    NotAllowed,
    Rejected,
    RequestStatus,
    asking,
    countersigned,
)
from countersign.context import build_idempotency_key
from tests.client.shop import Shop, ended
from tests.pages import ROOT
from tests.stories.harness import SUPPORT

DEPLOYED: Counter[str] = Counter()
S = RequestStatus
DIES = """
import os
from countersign import AlreadyTaken, asking, countersigned

@countersigned(effect="Deploy {version}", channel="C0SUPPORT", run="a job that dies")
def deploy_and_die(version: str) -> None:
    print("deployed", version, flush=True)
    os._exit(9)

try:
    deploy_and_die("9.9")
except AlreadyTaken as error:
    print(error, flush=True)
"""


@countersigned(title="Deploy", effect="Deploy {version} to {env}", channel=SUPPORT)
def deploy(version: str, env: str = "prod") -> dict[str, str]:
    """Deploy a version."""
    DEPLOYED[version] += 1
    if version == "3.0":
        raise RuntimeError("no such version")
    return {"deployed": version, "to": env}


@countersigned(effect="Deploy {version} slowly", channel=SUPPORT, without={"context"})
async def deploy_slowly(context: Any, version: int) -> int:
    """Deploy a version without hurry."""
    await asyncio.sleep(0)
    DEPLOYED[f"{context} {version}"] += 1
    return version + 1


def test_it_runs_with_the_arguments_as_people_approved_them(shop: Shop) -> None:
    """Ana edits the version, Cleo approves: the edited one is deployed, once, and told so."""
    DEPLOYED.clear()
    future = shop.begin(deploy, "1.1")
    shop.edit("Deploy 1.1 to prod", version="1.1.1")
    assert not future.done()
    shop.approve("Deploy 1.1.1 to prod", "cleo")
    assert ended(future) == {"deployed": "1.1.1", "to": "prod"}
    assert DEPLOYED == {"1.1.1": 1}
    shop.harness.settle()
    [call] = shop.calls('"1.1.1"')
    assert "1.1.1" in call.output
    assert call.status.value == S.SUCCEEDED.value


def test_what_is_rejected_does_not_run(shop: Shop) -> None:
    """The caller is told the words; what policy or the key does not allow is told as well."""
    DEPLOYED.clear()
    future = shop.begin(deploy, "1.2")
    shop.reject("Deploy 1.2 to prod", "not on a Friday")
    with pytest.raises(Rejected, match="not on a Friday") as told:
        ended(future)
    assert told.value.request is not None
    assert told.value.request.decided_by == ("UANA00001",)

    @countersigned(channel=SUPPORT)
    def wipe_everything() -> None:
        DEPLOYED["everything"] += 1

    with pytest.raises(NotAllowed, match="wipe_everything"):
        wipe_everything()
    assert not DEPLOYED


def test_an_agent_is_told_why_instead(shop: Shop) -> None:
    """With `tells_why` a rejection is what the tool returns, sync and async."""

    @countersigned(effect="Deploy {version} if liked", channel=SUPPORT, tells_why=True)
    def deploy_if_liked(version: str) -> str:
        return f"{version} is there"

    @countersigned(tells_why=True)
    async def wipe_softly() -> None:
        """Not allowed to this key."""

    future = shop.begin(deploy_if_liked, "1.25")
    shop.reject("Deploy 1.25 if liked", "nobody likes it")
    assert "nobody likes it" in ended(future)
    assert str(asyncio.run(wipe_softly())).startswith("It was not done.")


def test_what_it_raises_is_reported_and_raised(shop: Shop) -> None:
    """The function fails: its caller hears it as ever, and the record has it."""
    future = shop.begin(deploy, "3.0")
    shop.approve("Deploy 3.0 to prod")
    with pytest.raises(RuntimeError, match="no such version"):
        ended(future)
    shop.harness.settle()
    call = next(each for each in shop.calls('"3.0"') if "no such version" in each.output)
    assert call.status.value == S.FAILED.value


def test_async_functions_wait_without_the_loop(shop: Shop) -> None:
    """Two wait at once while the loop goes on; the context is the caller's own, and unseen."""
    DEPLOYED.clear()

    async def both() -> list[int]:
        return await asyncio.gather(deploy_slowly("mine", 41), deploy_slowly("yours", version=42))

    future = shop.begin(asyncio.run, both())
    for version in (42, 41):
        card = shop.card(f"Deploy {version} slowly")
        assert "yours" not in str(card)
        assert not DEPLOYED or version == 41
        shop.approve(f"Deploy {version} slowly")
    assert ended(future) == [42, 43]
    assert DEPLOYED == {"mine 41": 1, "yours 42": 1}


def test_who_is_cancelled_takes_it_back(shop: Shop) -> None:
    """A task that is cancelled while people decide takes its request back; nothing runs."""

    async def impatient() -> None:
        task = asyncio.create_task(deploy_slowly("gone", 77))
        await asyncio.to_thread(shop.card, "Deploy 77 slowly")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(impatient())
    shop.harness.slack.wait(lambda: shop.calls(":77")[0].status.value == S.CANCELLED.value)
    assert not DEPLOYED["gone 77"]


def test_who_is_cancelled_as_it_is_claimed_leaves_no_question(shop: Shop) -> None:
    """Claimed before the loop has heard of it: nothing runs, and that is on record."""
    DEPLOYED.clear()
    stands = partial(shop.calls, '"version":78')

    async def give_up() -> None:
        threads = set(threading.enumerate())
        task = asyncio.create_task(deploy_slowly("there", 78))
        await asyncio.sleep(0)
        [waiting] = {
            each for each in threading.enumerate() if each.name == "countersigned"
        } - threads
        shop.approve("Deploy 78 slowly")
        waiting.join(30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    shop.harness.slack.wait(lambda: [each.status.value for each in stands()] == [S.FAILED.value])
    assert "It was not run after all" in stands()[0].output
    assert not DEPLOYED


def test_in_one_run_nothing_is_asked_or_done_twice(shop: Shop) -> None:
    """The same call in the same run: one card and one effect, and the earlier result."""
    DEPLOYED.clear()
    with asking(run="release 7"):
        both = [shop.begin(deploy, "1.7") for _ in range(2)]
        shop.approve("Deploy 1.7 to prod")
        results = [future.exception(30) or future.result() for future in both]
        assert deploy("1.7") == {"deployed": "1.7", "to": "prod"}
    done = [each for each in results if isinstance(each, dict)]
    assert done
    assert all(each in done or isinstance(each, AlreadyTaken) for each in results)
    assert DEPLOYED == {"1.7": 1}
    shop.harness.settle()  # until its card is drawn as it ended
    assert shop.cards("1.7") == 1


def test_what_was_handed_out_is_not_run_again(shop: Shop) -> None:
    """A process that took it and died: its next life is told, and nothing runs twice."""
    DEPLOYED.clear()
    arguments = {"version": "1.8", "env": "prod"}
    assert build_idempotency_key("release 8", "own deploy", arguments) == build_idempotency_key(
        "release 8", "own deploy", dict(reversed(arguments.items()))
    )
    future = shop.begin(deploy, "1.8", "prod")  # of another run: it is another request
    shop.approve("Deploy 1.8 to prod")
    ended(future)
    with asking(run="release 8"):
        again = shop.begin(deploy, "1.8")
        shop.harness.slack.wait(lambda: shop.cards("1.8") == 2)
        assert len({each.run_id for each in shop.calls('"1.8"')}) == 2
        shop.approve("Deploy 1.8 to prod")
        ended(again)
    assert DEPLOYED == {"1.8": 2}


@pytest.mark.long
def test_a_process_that_dies_amid_it_does_it_once(shop: Shop) -> None:
    """It is killed while the function runs, and started again: the second is told why not."""
    with subprocess.Popen(
        [sys.executable, "-c", DIES], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as first:
        shop.approve("Deploy 9.9")
        assert first.communicate(timeout=60)[0] == "deployed 9.9\n"
    second = subprocess.run(
        [sys.executable, "-c", DIES], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert "handed out" in second.stdout, second.stderr


def test_it_waits_over_a_restart_of_the_bot(shop: Shop) -> None:
    """The bot goes and comes back while people decide: the program waits on, and it runs once."""
    DEPLOYED.clear()
    future = shop.begin(deploy, "1.9")
    shop.card("Deploy 1.9 to prod")
    shop.harness.restart()
    shop.approve("Deploy 1.9 to prod")
    assert ended(future)["deployed"] == "1.9"
    assert DEPLOYED == {"1.9": 1}


def test_nobody_decides_in_time(shop: Shop) -> None:
    """The time that people have is over: the caller is told, and it can be approved no more."""

    @countersigned(effect="Deploy {version} soon", channel=SUPPORT, wait=2)
    def deploy_soon(version: str) -> None:
        DEPLOYED[version] += 1

    with pytest.raises(Expired):
        deploy_soon("2.1")
    assert not DEPLOYED["2.1"]
    [call] = shop.calls('"2.1"')
    assert call.status.value in (S.EXPIRED, S.CANCELLED)


def test_what_failed_in_a_run_is_told_and_not_tried_again(shop: Shop) -> None:
    """An earlier attempt of the run had failed: the next is told so."""
    with asking(run="release 3"):
        future = shop.begin(deploy, "3.0", "test")
        shop.approve("Deploy 3.0 to test")
        with pytest.raises(RuntimeError):
            ended(future)
        before = DEPLOYED["3.0"]
        with pytest.raises(DidNotWork, match="no such version"):
            deploy("3.0", "test")
    assert DEPLOYED["3.0"] == before


def test_a_person_is_asked_for_information(shop: Shop) -> None:
    """Ben is asked in his own name, and what he answers is returned."""
    ben = shop.harness.person("ben")
    future = shop.begin(shop.client.ask_person, "Which region is it?", channel=SUPPORT)
    card = shop.card("Which region is it?", "answer")
    assert card
    ben.say(SUPPORT, "the north", card.get("thread_ts", card["ts"]))
    assert "the north" in str(ended(future))


class WordlessError(Exception):
    """What cannot even say what went wrong."""

    def __str__(self) -> str:
        raise LookupError("no words")


ODD_RESULTS: dict[str, tuple[Any, str]] = {
    "half": ("a\udcff\0b", "a\ufffd\ufffdb"),
    "late": ((each for each in (1, 2)), "UNKNOWN"),
    "long": (ValueError("x" * 200_000), "ValueError: xxxx"),
    "wordless": (WordlessError(), "WordlessError without a text"),
}


@countersigned(effect="Return {what}", channel=SUPPORT)
def deploy_oddly(what: str) -> Any:
    """Return or raise one of the odd results."""
    result = ODD_RESULTS[what][0]
    if isinstance(result, Exception):
        raise result
    return result


@pytest.mark.parametrize("what", ODD_RESULTS)
def test_whatever_comes_of_it_is_reported(shop: Shop, what: str) -> None:
    """Of what is done the record knows it, and the caller gets what there was, as it was."""
    result, words = ODD_RESULTS[what]
    future = shop.begin(deploy_oddly, what)
    shop.approve(f"Return {what}")
    if isinstance(result, Exception):
        with pytest.raises(type(result)):
            ended(future)
    else:
        assert ended(future) is result
    shop.harness.settle()
    [call] = shop.calls(f'"{what}"')
    assert words in call.output
    failed = S.FAILED if isinstance(result, Exception) else S.SUCCEEDED
    assert call.status.value == (S.UNKNOWN if what == "late" else failed).value
    if what == "late":
        assert list(result) == [1, 2], "it was not read"
