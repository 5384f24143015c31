"""A job that waits goes on within two seconds of what people decide, however the request stands
when the wait begins, and whatever becomes of the bot meanwhile.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from bot.http import ask_route as waiting_programs
from countersign.cli import approval_wait
from countersign.cli.ask import ExitCode
from countersign.cli.commands import main
from countersign.schema import infer_schema_from_values
from storage.models import Call
from tests.client.shop import DEPLOY, Shop, ended
from tests.client_keys import make_key

SOON = timedelta(seconds=2)
Job = Future[tuple[int, datetime]]


def job(shop: Shop, version: str, *more: str) -> Job:
    """A job asks; its exit code, and when it had it."""
    words = ["ask", "deploy", "env=prod", f"version={version}", "--title", DEPLOY.title]
    words += ["--effect", DEPLOY.effect, "--channel", "C0SUPPORT", *more]

    def run() -> tuple[int, datetime]:
        return main(words), shop.harness.clock.now()

    return shop.begin(run)


def decide(shop: Shop, how: str, version: str) -> None:
    """People do this with it."""
    text = f"Deploy {version} to prod"
    if how == "approve":
        shop.approve(text)
    elif how == "reject":
        shop.reject(text, "not now")
    else:
        shop.card(text)
        [call] = shop.calls(f'"{version}"')
        shop.client.cancel(call.run_id)


def went_on(shop: Shop, version: str, waited: Job) -> int:
    """The exit code of a job, which went on soon after the decision."""
    code, at = ended(waited)
    call: Call
    [call] = shop.calls(f'"{version}"')
    assert call.decided_at is not None
    assert at - call.decided_at < SOON
    return code


def says(capsys: pytest.CaptureFixture[str], shop: Shop, text: str) -> str:
    """What the job has told on its standard error, once this is part of it."""
    heard = ""

    def look() -> bool:
        nonlocal heard
        heard += capsys.readouterr().err
        return text in heard

    shop.harness.slack.wait(look)
    return heard


CODES = {"approve": ExitCode.APPROVED, "reject": ExitCode.DECLINED, "cancel": ExitCode.DECLINED}


@pytest.mark.parametrize("how", CODES)
@pytest.mark.parametrize("at", ["preparing", "pending"])
def test_however_it_stands_when_the_wait_begins(
    at: str,
    how: str,
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Slack may take its time with the message that the request begins with: it is `preparing`
    when the job begins to wait for good.
    """
    monkeypatch.setattr(approval_wait, "LINK_WAIT_SECONDS", 0.3)
    version, held = f"8.{at}.{how}", None
    if at == "preparing":
        held = shop.harness.slack.faults.hold("chat.postMessage", match=about(version))
    waited = job(shop, version)
    says(capsys, shop, "people have 30 minutes")
    if held is not None:
        assert not shop.calls(f'"{version}"')
        held.release()
    decide(shop, how, version)
    assert went_on(shop, version, waited) == CODES[how]


@pytest.mark.parametrize("how", CODES)
def test_what_was_decided_before_the_wait(how: str, shop: Shop) -> None:
    """It was asked by an earlier life of the job."""
    version = f"8.before.{how}"
    given = {"env": "prod", "version": version}  # in the order of the job's words
    asked = replace(DEPLOY, schema=infer_schema_from_values(given))
    shop.client.request(asked, given, run=version, channel="C0SUPPORT")
    decide(shop, how, version)
    shop.harness.settle()
    began = shop.harness.clock.now()
    code, at = ended(job(shop, version, "--run", version))
    assert (code, at - began < SOON) == (CODES[how], True)


@pytest.mark.parametrize("at", ["preparing", "pending", "decided"])
def test_while_the_bot_is_started_anew(
    at: str,
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The same process or another answers afterwards at that address. Meanwhile the job says that
    nobody does.
    """
    caplog.set_level(logging.WARNING, "countersign.client")
    monkeypatch.setattr(approval_wait, "LINK_WAIT_SECONDS", 0.3)
    version = f"8.restart.{at}"
    if at == "preparing":
        shop.harness.slack.faults.hold("chat.postMessage", match=about(version))
    waited = job(shop, version)
    says(capsys, shop, "people have")
    if at == "decided":
        shop.card(f"Deploy {version} to prod")
    shop.harness.app.stop()
    shop.harness.slack.wait(lambda: "Trying again." in caplog.text)
    shop.harness.slack.faults.clear()
    shop.harness.start()
    decide(shop, "approve", version)
    assert went_on(shop, version, waited) == ExitCode.APPROVED
    assert "answers again" in caplog.text


def test_after_an_edit_and_an_approval_of_that(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was edited is another revision of the same request."""
    waited = job(shop, "8.edited")
    says(capsys, shop, "people have")
    shop.edit("Deploy 8.edited to prod", version="8.edited.2")
    shop.approve("Deploy 8.edited.2 to prod", "cleo")
    assert went_on(shop, "8.edited.2", waited) == ExitCode.APPROVED


def test_when_the_time_is_over(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """The clock has said no."""
    waited = job(shop, "8.expired", "--wait", "20m")
    says(capsys, shop, "people have")
    shop.card("Deploy 8.expired to prod")
    shop.harness.clock.advance(20 * 60 + 1)
    assert went_on(shop, "8.expired", waited) == ExitCode.EXPIRED


def test_where_the_key_has_asked_as_often_as_it_may(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The job is told so at once, and does not wait for the next hour."""
    record = shop.harness.app.core.store.path
    told = make_key(record, "seldom", "@ben", ["*"], per_hour=1)
    monkeypatch.setenv("COUNTERSIGN_API_KEY", told.key)
    first = job(shop, "8.first")
    decide(shop, "approve", "8.first")
    assert went_on(shop, "8.first", first) == ExitCode.APPROVED
    capsys.readouterr()
    code, _ = ended(job(shop, "8.second"))
    assert code == ExitCode.NOT_ASKED
    assert "has made the 1 requests" in capsys.readouterr().err
    assert not shop.calls('"8.second"')


def test_where_too_many_wait_already(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody may wait at the server any more: then the job looks now and again."""
    monkeypatch.setattr(waiting_programs, "MAX_WAITING_REQUESTS_PER_KEY", 0)
    waited = job(shop, "8.too-many")
    says(capsys, shop, "people have")
    decide(shop, "approve", "8.too-many")
    assert went_on(shop, "8.too-many", waited) == ExitCode.APPROVED


def test_a_tool_of_the_bots_own(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """The job goes on once that has ended, also where it began to wait before anybody was asked."""
    held = shop.harness.slack.faults.hold("chat.postMessage", match=about("8.registered"))
    words = ["ask", "note", "text=8.registered", "--registered", "--channel", "C0SUPPORT"]
    waited = shop.begin(main, words)
    assert held.arrived.wait(30)
    held.release()
    shop.approve("8.registered")
    assert ended(waited) == ExitCode.APPROVED
    assert json.loads(capsys.readouterr().out)["status"] == "succeeded"


def about(text: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a call to Slack has this in it."""
    return lambda args: text in json.dumps(args)
