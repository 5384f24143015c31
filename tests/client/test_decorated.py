"""Decorated functions run only after approval, with the approved arguments."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

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
from tests.client.shop import Shop, get_result
from tests.pages import ROOT
from tests.stories.harness import SUPPORT
from tests.stories.messages import words

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

# programs that wait, and end at SIGTERM, each in its own way
WAITS = """
import asyncio, contextlib, signal, sys
from countersign import countersigned

@countersigned(effect="Deploy {version}", channel="C0SUPPORT")
async def deploy_later(version: str) -> None: ...

@countersigned(effect="Deploy {version}", channel="C0SUPPORT")
def deploy(version: str) -> None: ...

def end_job(*_):
    raise TimeoutError("the job took too long")  # no time limit of the connection

async def main() -> None:
    waits = asyncio.ensure_future(deploy_later("7.51"))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, waits.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await waits
"""
ENDS = {
    "7.51": "asyncio.run(main())",
    "7.52": "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); deploy('7.52')",
    "7.53": "signal.signal(signal.SIGTERM, end_job); deploy('7.53')",
}


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


def test_a_function_runs_with_the_approved_arguments(shop: Shop) -> None:
    """Ana edits the version, Cleo approves; the edited one is deployed, once."""
    DEPLOYED.clear()
    future = shop.start(deploy, "1.1")
    shop.edit("Deploy 1.1 to prod", version="1.1.1")
    assert not future.done()
    shop.approve("Deploy 1.1.1 to prod", "cleo")
    assert get_result(future) == {"deployed": "1.1.1", "to": "prod"}
    assert DEPLOYED == {"1.1.1": 1}
    shop.harness.settle()
    [call] = shop.list_calls('"1.1.1"')
    assert "1.1.1" in call.output
    assert call.status.value == S.SUCCEEDED.value


def test_a_value_that_is_taken_out_runs_as_the_default_that_the_card_shows(shop: Shop) -> None:
    """It does not say that there is none."""
    ran: list[tuple[int, str | None]] = []

    @countersigned(effect="Deploy the {site}", channel=SUPPORT)
    def deploy_site(site: str, copies: int = 7, note: str | None = None) -> None:
        ran.append((copies, note))

    future = shop.start(deploy_site, "new site", 20, "in haste")
    shop.edit("Deploy the new site", copies="", note="")
    shown = words(shop.wait_for_card("Deploy the new site"))
    assert re.findall('"text": "([^"]*)"', shown[shown.index("Copies") :])[:7] == [
        *("20", "  →  ", "7"),
        *("Note:  ", "in haste", "  →  ", "no value"),
    ]
    shop.approve("Deploy the new site", "cleo")
    get_result(future)
    assert ran == [(7, None)]


def test_a_rejected_function_does_not_run(shop: Shop) -> None:
    """It raises with the words; so does what policy or the key does not allow."""
    DEPLOYED.clear()
    future = shop.start(deploy, "1.2")
    shop.reject("Deploy 1.2 to prod", "not on a Friday")
    with pytest.raises(Rejected, match="not on a Friday") as told:
        get_result(future)
    assert told.value.request is not None
    assert told.value.request.decided_by == ("UANA00001",)

    @countersigned(channel=SUPPORT)
    def wipe_everything() -> None:
        DEPLOYED["everything"] += 1

    with pytest.raises(NotAllowed, match="wipe_everything"):
        wipe_everything()
    assert not DEPLOYED


def test_with_tells_why_a_rejection_is_the_result(shop: Shop) -> None:
    """Sync and async."""

    @countersigned(effect="Deploy {version} if liked", channel=SUPPORT, tells_why=True)
    def deploy_if_liked(version: str) -> str:
        return f"{version} is there"

    @countersigned(tells_why=True)
    async def wipe_softly() -> None:
        """Not allowed to this key."""

    future = shop.start(deploy_if_liked, "1.25")
    shop.reject("Deploy 1.25 if liked", "nobody likes it")
    assert "nobody likes it" in get_result(future)
    assert str(asyncio.run(wipe_softly())).startswith("It was not done.")


def test_an_exception_of_the_function_is_reported_and_raised(shop: Shop) -> None:
    """Its caller sees the exception, and the record has it."""
    future = shop.start(deploy, "3.0")
    shop.approve("Deploy 3.0 to prod")
    with pytest.raises(RuntimeError, match="no such version"):
        get_result(future)
    shop.harness.settle()
    call = next(each for each in shop.list_calls('"3.0"') if "no such version" in each.output)
    assert call.status.value == S.FAILED.value


def test_async_functions_wait_without_blocking_the_loop(shop: Shop) -> None:
    """Two wait at once. The context is the caller's own, and not shown."""
    DEPLOYED.clear()

    async def both() -> list[int]:
        return await asyncio.gather(deploy_slowly("mine", 41), deploy_slowly("yours", version=42))

    future = shop.start(asyncio.run, both())
    for version in (42, 41):
        card = shop.wait_for_card(f"Deploy {version} slowly")
        assert "yours" not in str(card)
        assert not DEPLOYED or version == 41
        shop.approve(f"Deploy {version} slowly")
    assert get_result(future) == [42, 43]
    assert DEPLOYED == {"mine 41": 1, "yours 42": 1}


def test_cancelling_a_task_cancels_its_request(shop: Shop) -> None:
    """While people decide; nothing runs."""

    async def impatient() -> None:
        task = asyncio.create_task(deploy_slowly("gone", 77))
        await asyncio.to_thread(shop.wait_for_card, "Deploy 77 slowly")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(impatient())
    shop.harness.slack.wait(lambda: shop.list_calls(":77")[0].status.value == S.CANCELLED.value)
    assert not DEPLOYED["gone 77"]


@pytest.mark.long
@pytest.mark.parametrize("version", ENDS, ids=["cancelled task", "SystemExit", "TimeoutError"])
def test_a_program_that_ends_takes_its_request_back(shop: Shop, version: str) -> None:
    """Nobody waits for the decision any more."""
    command = [sys.executable, "-c", WAITS + ENDS[version]]
    with subprocess.Popen(command, cwd=ROOT) as program:
        shop.wait_for_card(f"Deploy {version}")
        program.terminate()
        program.wait(30)
    assert [each.status.value for each in shop.list_calls(f'"{version}"')] == [S.CANCELLED.value]


def test_an_async_function_without_asyncio_asks_nobody(shop: Shop) -> None:
    """As on trio: it fails at once."""
    with pytest.raises(RuntimeError, match="no running event loop"):
        deploy_slowly("trio", 79).send(None)
    assert not shop.list_calls('"version":79')


def test_a_task_cancelled_after_the_claim_is_recorded_as_failed(shop: Shop) -> None:
    """The call was claimed before the loop knew of it. It did not run, and that is recorded."""
    DEPLOYED.clear()
    stands = partial(shop.list_calls, '"version":78')

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


def test_the_same_call_in_one_run_is_asked_and_done_once(shop: Shop) -> None:
    """There is one card and one effect, and the earlier result is returned."""
    DEPLOYED.clear()
    with asking(run="release 7"):
        both = [shop.start(deploy, "1.7") for _ in range(2)]
        shop.approve("Deploy 1.7 to prod")
        results = [future.exception(30) or future.result() for future in both]
        assert deploy("1.7") == {"deployed": "1.7", "to": "prod"}
    done = [each for each in results if isinstance(each, dict)]
    assert done
    assert all(each in done or isinstance(each, AlreadyTaken) for each in results)
    assert DEPLOYED == {"1.7": 1}
    shop.harness.settle()  # until its card shows the end
    assert shop.count_cards("1.7") == 1


@pytest.mark.parametrize("version", ["4e1", "true", "null", '{"tag": 7}', "[1]", '"8"', "", "0x8"])
def test_an_earlier_result_is_the_same_text(shop: Shop, version: str) -> None:
    """A text that could be read as JSON stays a text, as does a text of any other program."""

    @countersigned(effect="Deploy what is tagged", channel=SUPPORT, without={"tag"})
    def deploy_tagged(tag: str) -> str:
        return tag

    with asking(run=f"tagged {version}"):
        future = shop.start(deploy_tagged, version)
        shop.approve("Deploy what is tagged")
        assert get_result(future) == version
        assert deploy_tagged("not used") == version


def test_the_same_call_in_another_run_is_asked_again(shop: Shop) -> None:
    """The same call of another run is another request."""
    DEPLOYED.clear()
    arguments = {"version": "1.8", "env": "prod"}
    assert build_idempotency_key("release 8", "own deploy", arguments) == build_idempotency_key(
        "release 8", "own deploy", dict(reversed(arguments.items()))
    )
    future = shop.start(deploy, "1.8", "prod")  # in another run
    shop.approve("Deploy 1.8 to prod")
    get_result(future)
    with asking(run="release 8"):
        again = shop.start(deploy, "1.8")
        shop.harness.slack.wait(lambda: shop.count_cards("1.8") == 2)
        assert len({each.run_id for each in shop.list_calls('"1.8"')}) == 2
        shop.approve("Deploy 1.8 to prod")
        get_result(again)
    assert DEPLOYED == {"1.8": 2}


@pytest.mark.long
def test_a_process_killed_in_the_function_does_not_run_it_again(shop: Shop) -> None:
    """Killed while the function runs, and started again, it is refused."""
    with subprocess.Popen(
        [sys.executable, "-c", DIES], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as first:
        shop.approve("Deploy 9.9")
        assert first.communicate(timeout=60)[0] == "deployed 9.9\n"
    second = subprocess.run(
        [sys.executable, "-c", DIES], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert "handed out" in second.stdout, second.stderr


def test_a_program_waits_while_the_bot_restarts(shop: Shop) -> None:
    """The function runs once."""
    DEPLOYED.clear()
    future = shop.start(deploy, "1.9")
    shop.wait_for_card("Deploy 1.9 to prod")
    shop.harness.restart()
    shop.approve("Deploy 1.9 to prod")
    assert get_result(future)["deployed"] == "1.9"
    assert DEPLOYED == {"1.9": 1}


def test_a_call_nobody_decided_in_time_raises_expired(shop: Shop) -> None:
    """It can no longer be approved."""

    @countersigned(effect="Deploy {version} soon", channel=SUPPORT, wait=2)
    def deploy_soon(version: str) -> None:
        DEPLOYED[version] += 1

    with pytest.raises(Expired):
        deploy_soon("2.1")
    assert not DEPLOYED["2.1"]
    [call] = shop.list_calls('"2.1"')
    assert call.status.value in (S.EXPIRED, S.CANCELLED)


def test_a_value_that_would_be_read_otherwise_does_not_run(shop: Shop) -> None:
    """Nobody is asked. If people edit it to such a value, the call fails and says why."""
    DEPLOYED.clear()
    limited = Annotated[int, AfterValidator(lambda copies: copies - (copies > 100))]

    @countersigned(effect="Deploy {copies} copies", channel=SUPPORT)
    def deploy_copies(copies: limited) -> None:  # type: ignore[valid-type]  # made here
        DEPLOYED["copies"] += copies

    deploy_copies.__annotations__["copies"] = limited
    with pytest.raises(TypeError, match="would not run with the copies that people are shown"):
        deploy_copies(200)
    future = shop.start(deploy_copies, 99)
    shop.edit("Deploy 99 copies", copies="500")
    shop.approve("Deploy 500 copies", "cleo")
    with pytest.raises(TypeError, match="would not run with the copies that people are shown"):
        get_result(future)
    assert not DEPLOYED
    assert not shop.list_calls("200")
    shop.harness.settle()
    [call] = shop.list_calls("500")
    assert call.status.value == S.FAILED.value


def test_a_call_that_failed_in_a_run_is_not_tried_again(shop: Shop) -> None:
    """The next call in the run raises the reason."""
    with asking(run="release 3"):
        future = shop.start(deploy, "3.0", "test")
        shop.approve("Deploy 3.0 to test")
        with pytest.raises(RuntimeError):
            get_result(future)
        before = DEPLOYED["3.0"]
        with pytest.raises(DidNotWork, match="no such version"):
            deploy("3.0", "test")
    assert DEPLOYED["3.0"] == before


def test_a_program_can_ask_a_person_for_information(shop: Shop) -> None:
    """Ben is asked in his own name, and his answer is returned."""
    ben = shop.harness.person("ben")
    future = shop.start(shop.client.ask_person, "Which region is it?", channel=SUPPORT)
    card = shop.wait_for_card("Which region is it?", "answer")
    assert card
    ben.say(SUPPORT, "the north", card.get("thread_ts", card["ts"]))
    assert "the north" in str(get_result(future))


class WordlessError(Exception):
    """An error whose text cannot be read."""

    def __str__(self) -> str:
        raise LookupError("no words")


async def yield_later() -> AsyncIterator[int]:
    """Yield a number."""
    yield 1


@contextlib.contextmanager
def deploy_within() -> Iterator[int]:
    """Do nothing before a `with`."""
    yield 1


ODD_RESULTS: dict[str, tuple[Any, str]] = {
    "elsewhere": (Future[int](), "UNKNOWN"),
    "entered": (deploy_within(), "UNKNOWN"),
    "half": ("a\udcff\0b", "a\ufffd\ufffdb"),
    "late": ((each for each in (1, 2)), "UNKNOWN"),
    "later": (yield_later(), "UNKNOWN"),
    "lines": (iter([1, 2]), "list_iterator"),
    "long": (ValueError("x" * 200_000), "ValueError: xxxx"),
    "mapped": (map(int, "12"), "UNKNOWN"),
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
def test_odd_results_and_errors_are_reported(shop: Shop, what: str) -> None:
    """The caller gets the result or the exception unchanged."""
    result, words = ODD_RESULTS[what]
    future = shop.start(deploy_oddly, what)
    shop.approve(f"Return {what}")
    if isinstance(result, Exception):
        with pytest.raises(type(result)):
            get_result(future)
    else:
        assert get_result(future) is result
    shop.harness.settle()
    [call] = shop.list_calls(f'"{what}"')
    assert words in call.output
    failed = S.FAILED if isinstance(result, Exception) else S.SUCCEEDED
    assert call.status.value == (S.UNKNOWN if words == "UNKNOWN" else failed).value
    if isinstance(result, Iterator):
        assert list(result) == [1, 2], "it was not read"
