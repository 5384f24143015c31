"""The examples of docs/programs.md, run as they are against a working bot."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
from standardwebhooks import Webhook as Signature

from bot.clock import SystemClock
from bot.http.api_bodies import PROBLEM_TYPE_PREFIX
from countersign.request import RequestStatus
from tests.pages import ROOT, blocks, section, table
from tests.stories.harness import Harness
from tests.stories.steps import vote
from tests.web.api.conftest import NewProgram
from tests.web.api.program import Program

PAGE = ROOT / "docs" / "programs.md"


def list_curl_commands() -> list[str]:
    """List the curl commands of the page, in order."""
    found = [
        each for block in blocks(PAGE, "sh") for each in re.split(r"^(?=curl )", block, flags=re.M)
    ]
    return [each for each in found if each.startswith("curl ")]


def run_command(program: Program, command: str, run_id: str = "") -> dict[str, Any]:
    """Run the command and return what it prints."""
    web = program.harness.app.endpoints.web
    assert web is not None
    ended = subprocess.run(
        ["sh", "-c", command],
        env={
            "PATH": "/usr/bin:/bin",
            "COUNTERSIGN_URL": web.url,
            "COUNTERSIGN_API_KEY": program.key,
            "ID": run_id,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_the_curl_commands_of_the_page_work(bot: Harness, new_program: NewProgram) -> None:
    """A message is requested and looked at; a deployment is requested, claimed and reported."""
    program = new_program()
    ask, look, deploy, claim, report = list_curl_commands()
    asked = run_command(program, ask)
    vote(bot, "ana", program.card("It found 3 of them"))
    assert run_command(program, look, asked["id"])["status"] == "succeeded"
    assert any("From a job" in each["text"] for each in bot.person("ana").messages("C0SUPPORT"))
    ana = bot.person("ana")
    before = {message["ts"] for message in ana.messages(ana.dm_channel)}
    asked = run_command(program, deploy)

    def shown() -> dict[str, Any] | None:
        found = (m for m in ana.messages(ana.dm_channel) if m["ts"] not in before)
        return next((m for m in found if "Deploy 1.4.2" in json.dumps(m)), None)

    card = bot.slack.wait(shown)
    vote(bot, "ana", card, ana.dm_channel)
    program.look(asked, 30)
    assert run_command(program, claim, asked["id"])["arguments"] == {"version": "1.4.2"}
    assert run_command(program, report, asked["id"])["status"] == "succeeded"


def test_the_page_names_every_status_and_problem() -> None:
    """Its table has each status once; its headings are those that problems refer to."""
    cells = re.findall(r"^\| (`[^|]+) \|", section(PAGE, "Statuses"), re.M)
    named = [each for cell in cells for each in re.findall(r"`(\w+)`", cell) if each != "status"]
    assert sorted(named) == sorted(RequestStatus)
    said = "".join(each.read_text("utf-8") for each in (ROOT / "bot" / "http").glob("*.py"))
    headings = re.findall(r"^###? (.+)$", PAGE.read_text("utf-8"), re.M)
    places = {each.lower().replace(" ", "-") for each in headings}
    about = set(re.findall(r'about="([\w-]+)"', said)) | {"limits"}
    assert about <= places
    assert PROBLEM_TYPE_PREFIX == "urn:countersign:problem:"
    assert table(section(PAGE, "Asking"))["deadline_seconds"]


def test_the_pages_function_checks_webhook_signatures() -> None:
    """It accepts the signed body only."""
    [code] = blocks(PAGE, "python")
    example: dict[str, Any] = {}
    exec(code, example)
    secret, at, body = (
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        SystemClock().now(),
        '{"type": "x"}',
    )
    signature = Signature(secret).sign("msg_1", at, body)
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": signature,
    }
    assert example["told"](body.encode(), headers, secret) == {"type": "x"}
    with pytest.raises(Exception, match="signature"):
        example["told"](b'{"type": "y"}', headers, secret)
