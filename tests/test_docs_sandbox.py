"""docs/sandbox.md agrees with the sandbox: its app, each route and each fault work."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_args
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from aiohttp import web

from slack_sandbox.http import faults
from slack_sandbox.http.control import Control
from slack_sandbox.http.files import FilesHttp
from slack_sandbox.spec.facts import FACTS
from tests.local_slack import build_local_slack
from tests.pages import ROOT, blocks, section, table

PAGE = ROOT / "docs" / "sandbox.md"
PATIENCE = 30  # seconds
Json = dict[str, Any]
APP_FILES = ("coffee.yml", "coffee.py")


class RunningSandbox:
    """`countersign sandbox` with the page's app, as two processes, seen over HTTP."""

    def __init__(self, url: str, log: Path) -> None:
        self.url, self._log = url, log

    def ask(self, route: str, body: bytes | None = None, method: str = "") -> Any:
        """The JSON of a route's answer, of a refusal as well."""
        request = Request(
            f"{self.url}/sandbox/{route}",
            body,
            method=method or ("GET" if body is None else "POST"),
        )
        try:
            with urlopen(request, timeout=PATIENCE) as answer:
                return json.load(answer)
        except HTTPError as error:
            return json.load(error)

    def fill_placeholders(self, text: str) -> str:
        """Replace TS, CARD and VIEW in the example by what they stand for now.

        It raises LookupError when that is not there yet.
        """
        seen = self.ask("state?as=ana")
        theirs = {"TS": False, "CARD": True}
        for word, app in theirs.items():
            if re.search(rf"\b{word}\b", text):
                ts = [m["ts"] for m in seen["messages"]["C0SUPPORT"] if ("app_id" in m) is app]
                text = re.sub(rf"\b{word}\b", ts[0], text)
        return re.sub(r"\bVIEW\b", seen["views"][-1]["id"], text) if "VIEW" in text else text

    def ask_until_ok(self, route: str, example: str | None = None, method: str = "") -> Any:
        """The answer once the example works; asked again whenever ana's workspace changes."""
        with urlopen(f"{self.url}/sandbox/events?as=ana", timeout=PATIENCE / 3) as changes:
            answer: Any = None
            for line in changes:
                if line.strip():
                    try:
                        body = None if example is None else self.fill_placeholders(example).encode()
                        answer = self.ask(self.fill_placeholders(route), body, method)
                    except LookupError as error:
                        answer = {"ok": False, "message": repr(error)}
                    if not isinstance(answer, dict) or answer.get("ok", True):
                        return answer
        raise AssertionError(f"{route}: {answer}; {self._log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSandbox]:
    """The page's first command with the app that its second one runs."""
    folder = tmp_path_factory.mktemp("coffee")
    for name in APP_FILES:
        shutil.copy(PAGE.with_name(name), folder)
    first, second = (shlex.split(code) for code in blocks(PAGE, "sh")[:2])
    options = [each.replace("8765", "0") for each in first[1:]] + second[second.index("--run") :]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {"PATH": path, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with ExitStack() as stack:
        out = folder / "errors.log"
        sandbox = subprocess.Popen(
            [sys.executable, "-m", "bot", *options],
            cwd=folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=stack.enter_context(out.open("w")),
            text=True,
        )
        watchdog = threading.Timer(2 * PATIENCE, sandbox.terminate)
        watchdog.start()
        stack.callback(sandbox.communicate)
        stack.callback(sandbox.terminate)
        stack.callback(watchdog.cancel)
        assert sandbox.stdout is not None
        lines = list(
            iter(lambda: sandbox.stdout.readline().rstrip(), "Ctrl-C ends it; nothing is kept.")
        )
        shown = [line for line in blocks(PAGE, "text")[0].splitlines() if line]
        url = lines[0].rsplit(" ", 1)[1]
        assert [line.replace(url, "http://127.0.0.1:8765") for line in lines if line] == shown
        assert "running" in sandbox.stdout.readline(), out.read_text()
        yield RunningSandbox(url, out)


def read_table_rows(title: str, header: str) -> list[tuple[str, str]]:
    """The first and second cells of the table whose header begins with `header`."""
    text = section(PAGE, title)
    body = text[text.index(f"| {header}") :].partition("\n\n")[0]
    # the first is the header
    return [(name, cells[0].strip("`")) for name, cells in table(body).items()][1:]


def test_what_people_do(local: RunningSandbox) -> None:
    """Every POST of the table works as written, in its order, with the effect it names."""
    for name, example in read_table_rows("The control interface", "`POST"):
        local.ask_until_ok(name, json.dumps({"as": "ana", **json.loads(example)}))
    local.ask("clock", b'{"advance": 3600}')
    upload = re.findall(r"`POST /sandbox/(upload\S*)`", section(PAGE, "The control interface"))
    assert local.ask(upload[0], b"Espresso 2.40")["file"]["name"] == "menu.txt"
    seen = local.ask("state?as=ana")
    texts = [message["text"] for message in seen["messages"]["C0SUPPORT"]]
    assert "Espresso, black." in texts
    assert "It comes." in texts
    assert not any("please" in text for text in texts)
    kinds = {(each["kind"], each["type"]) for each in local.ask("deliveries?after=0")["deliveries"]}
    wanted = {"block_actions", "block_suggestion", "view_submission", "shortcut", "message_action"}
    assert {("interactive", each) for each in wanted} | {("slash_commands", "/coffee")} <= kinds
    assert ("events_api", "agent_session_stopped") in kinds


def test_each_get_of_the_table_answers(local: RunningSandbox) -> None:
    """For the message and the modal that the table names."""
    local.ask_until_ok("say", '{"as": "ana", "channel": "C0SUPPORT", "text": "coffee"}')
    local.ask_until_ok("shortcut", '{"as": "ana", "callback_id": "order"}')
    for path, _ in read_table_rows("The control interface", "`GET"):
        if not path.startswith("events"):  # `ask_until_ok` reads those
            assert local.ask_until_ok(path)


def test_the_curl_example_is_the_first_row_of_the_table(local: RunningSandbox) -> None:
    """Its path and body are those of the first POST."""
    [command] = [code for code in blocks(PAGE, "sh") if code.startswith("curl")]
    sent = json.loads(command.partition("--json '")[2].strip().rstrip("'"))
    name, example = read_table_rows("The control interface", "`POST")[0]
    assert f"/sandbox/{name} " in command
    assert sent == {"as": "ana", **json.loads(example)}


def test_each_fault_of_the_page_works_and_none_is_left_out(local: RunningSandbox) -> None:
    """Each kind is accepted as written and listed; DELETE forgets them all."""
    examples = dict(read_table_rows("Faults and rates", "`kind`"))
    kinds = {get_args(each.model_fields["kind"].annotation)[0] for each in get_args(faults._Any)}
    assert set(examples) == kinds
    for kind, example in examples.items():
        assert json.loads(example)["kind"] == kind
        assert local.ask("faults", example.encode()) == {"ok": True}
    listed = [fault["kind"] for fault in local.ask("faults")["faults"]]
    assert listed == [kind for kind in examples if kind not in ("disconnect", "refresh", "cut")]
    assert local.ask("faults", method="DELETE") == {"ok": True}
    assert local.ask("faults")["faults"] == []
    assert local.ask("rates", b'{"enabled": true}') == {"ok": True}


def test_no_route_is_left_out() -> None:
    """The tables and sentences name every route of the control interface, and no other."""

    async def routes() -> set[str]:
        sandbox, router = build_local_slack(), web.UrlDispatcher()
        for part in (Control(sandbox.world), FilesHttp(sandbox.world)):
            part.add_routes(router)
        faults.ControlFaults(sandbox.world, sandbox.faults, sandbox.rates).add_routes(router)
        return {
            f"{each.method} {each.resource.canonical}"
            for each in router.routes()
            if each.resource is not None
        }

    there = {
        each
        for each in asyncio.run(routes())
        if " /sandbox/" in each and not each.startswith("HEAD")
    }
    text = section(PAGE, "The control interface") + section(PAGE, "Faults and rates")
    named = set(re.findall(r"`((?:POST|DELETE) /sandbox/[a-z/]+)", text))
    named |= {
        f"POST /sandbox/{name}" for name, _ in read_table_rows("The control interface", "`POST")
    }
    named |= {
        f"GET /sandbox/{path.partition('?')[0]}"
        for path, _ in read_table_rows("The control interface", "`GET")
    }
    assert {each for each in named if not each.endswith("/")} == there


def test_the_page_names_each_family_of_methods() -> None:
    """No method that the page calls missing exists."""
    text = re.sub(r"\n *(?=[^\s-])", " ", section(PAGE, "What is not there"))
    there = set(
        re.findall(r"`([a-zA-Z0-9.]+)`", text.partition("There are:")[2].partition("\n\n")[0])
    )
    assert {
        name
        for name in FACTS
        if not any(name.startswith(f"{each}.") or name == each for each in there)
    } == set()
    assert {
        each for each in there if not any(f"{name}.".startswith(f"{each}.") for name in FACTS)
    } == set()
    missing = re.findall(
        r"`([\w.]+?)(?:\.\*)?`", text.partition("**Methods:**")[2].partition("and what was")[0]
    )
    assert len(missing) > 10
    assert [
        each for each in missing if any(f"{name}.".startswith(f"{each}.") for name in FACTS)
    ] == []
