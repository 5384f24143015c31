"""A waiting job goes on within two seconds of the decision, however the request stands when the
wait begins, and whatever happens to the bot meanwhile.
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
from tests.client.shop import DEPLOY, Shop, get_result
from tests.client_keys import make_key

SOON = timedelta(seconds=2)
Job = Future[tuple[int, datetime]]


def start_job(shop: Shop, version: str, *more: str) -> Job:
    """Start a job that asks; it gives its exit code, and when it ended."""
    words = ["ask", "deploy", "env=prod", f"version={version}", "--title", DEPLOY.title]
    words += ["--effect", DEPLOY.effect, "--channel", "C0SUPPORT", *more]

    def run() -> tuple[int, datetime]:
        return main(words), shop.harness.clock.now()

    return shop.start(run)


def decide(shop: Shop, how: str, version: str) -> None:
    """Have people do this with it."""
    text = f"Deploy {version} to prod"
    if how == "approve":
        shop.approve(text)
    elif how == "reject":
        shop.reject(text, "not now")
    else:
        shop.wait_for_card(text)
        [call] = shop.list_calls(f'"{version}"')
        shop.client.cancel(call.run_id)


def check_prompt_end(shop: Shop, version: str, waited: Job) -> int:
    """Check that the job ended soon after the decision; return its exit code."""
    code, at = get_result(waited)
    call: Call
    [call] = shop.list_calls(f'"{version}"')
    assert call.decided_at is not None
    assert at - call.decided_at < SOON
    return code


def wait_for_output(capsys: pytest.CaptureFixture[str], shop: Shop, text: str) -> str:
    """Return the job's standard error once it has this text."""
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
def test_a_job_goes_on_soon_after_each_kind_of_decision(
    at: str,
    how: str,
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Slack may be slow with the request's first message: then it is still being prepared when the
    job begins to wait.
    """
    monkeypatch.setattr(approval_wait, "LINK_WAIT_SECONDS", 0.3)
    version, held = f"8.{at}.{how}", None
    if at == "preparing":
        held = shop.harness.slack.faults.hold("chat.postMessage", match=match_text(version))
    waited = start_job(shop, version)
    wait_for_output(capsys, shop, "people have 30 minutes")
    if held is not None:
        assert not shop.list_calls(f'"{version}"')
        held.release()
    decide(shop, how, version)
    assert check_prompt_end(shop, version, waited) == CODES[how]


@pytest.mark.parametrize("how", CODES)
def test_a_job_goes_on_at_once_if_it_was_decided_before(how: str, shop: Shop) -> None:
    """An earlier process of the job asked."""
    version = f"8.before.{how}"
    given = {"env": "prod", "version": version}  # in the order of the job's words
    asked = replace(DEPLOY, schema=infer_schema_from_values(given))
    shop.client.request(asked, given, run=version, channel="C0SUPPORT")
    decide(shop, how, version)
    shop.harness.settle()
    began = shop.harness.clock.now()
    code, at = get_result(start_job(shop, version, "--run", version))
    assert (code, at - began < SOON) == (CODES[how], True)


@pytest.mark.parametrize("at", ["preparing", "pending", "decided"])
def test_a_job_waits_while_the_bot_restarts(
    at: str,
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The bot answers at the same address afterwards. Meanwhile the job says that nobody does."""
    caplog.set_level(logging.WARNING, "countersign.client")
    monkeypatch.setattr(approval_wait, "LINK_WAIT_SECONDS", 0.3)
    version = f"8.restart.{at}"
    if at == "preparing":
        shop.harness.slack.faults.hold("chat.postMessage", match=match_text(version))
    waited = start_job(shop, version)
    wait_for_output(capsys, shop, "people have")
    if at == "decided":
        shop.wait_for_card(f"Deploy {version} to prod")
    shop.harness.app.stop()
    shop.harness.slack.wait(lambda: "Trying again." in caplog.text)
    shop.harness.slack.faults.clear()
    shop.harness.start()
    decide(shop, "approve", version)
    assert check_prompt_end(shop, version, waited) == ExitCode.APPROVED
    assert "answers again" in caplog.text


def test_a_job_goes_on_after_an_edit_was_approved(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """The edit is another revision of the same request."""
    waited = start_job(shop, "8.edited")
    wait_for_output(capsys, shop, "people have")
    shop.edit("Deploy 8.edited to prod", version="8.edited.2")
    shop.approve("Deploy 8.edited.2 to prod", "cleo")
    assert check_prompt_end(shop, "8.edited.2", waited) == ExitCode.APPROVED


def test_a_job_goes_on_when_the_time_is_over(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """The clock decides."""
    waited = start_job(shop, "8.expired", "--wait", "20m")
    wait_for_output(capsys, shop, "people have")
    shop.wait_for_card("Deploy 8.expired to prod")
    shop.harness.clock.advance(20 * 60 + 1)
    assert check_prompt_end(shop, "8.expired", waited) == ExitCode.EXPIRED


def test_a_job_ends_at_once_if_its_key_is_over_its_limit(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It does not wait for the next hour."""
    record = shop.harness.app.core.store.path
    told = make_key(record, "seldom", "@ben", ["*"], per_hour=1)
    monkeypatch.setenv("COUNTERSIGN_API_KEY", told.key)
    first = start_job(shop, "8.first")
    decide(shop, "approve", "8.first")
    assert check_prompt_end(shop, "8.first", first) == ExitCode.APPROVED
    capsys.readouterr()
    code, _ = get_result(start_job(shop, "8.second"))
    assert code == ExitCode.NOT_ASKED
    assert "has made 1 request within an hour: its limit" in capsys.readouterr().err
    assert not shop.list_calls('"8.second"')


def test_a_job_polls_if_too_many_programs_wait(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server lets no more programs wait, so the job polls."""
    monkeypatch.setattr(waiting_programs, "MAX_WAITING_REQUESTS_PER_KEY", 0)
    waited = start_job(shop, "8.too-many")
    wait_for_output(capsys, shop, "people have")
    decide(shop, "approve", "8.too-many")
    assert check_prompt_end(shop, "8.too-many", waited) == ExitCode.APPROVED


def test_a_job_goes_on_after_the_bots_own_tool_has_run(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """Even if it began to wait before anybody was asked."""
    held = shop.harness.slack.faults.hold("chat.postMessage", match=match_text("8.registered"))
    words = ["ask", "note", "text=8.registered", "--registered", "--channel", "C0SUPPORT"]
    waited = shop.start(main, words)
    assert held.arrived.wait(30)
    held.release()
    shop.approve("8.registered")
    assert get_result(waited) == ExitCode.APPROVED
    assert json.loads(capsys.readouterr().out)["status"] == "succeeded"


def match_text(text: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a call to Slack has this text in it."""
    return lambda args: text in json.dumps(args)
