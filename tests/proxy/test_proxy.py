"""`countersign mcp-proxy`: a host's calls run once people have approved them, and once only."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent

from bot.config.connection import Transport
from bot.programs.client import say_to_the_bot
from bot.programs.wire import KeyWanted
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import arrived, open_modal, reject, typed

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
POLICY = """
[defaults]
approvers = ["UANA00001", "UCLEO0001"]

[[rule]]
name = "reading is free"
tool = "shop_count_lines"
effect = "read"
verdict = "allow"
"""
SERVER = """
import sys
from pathlib import Path
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations

book = Path(sys.argv[1])
server = MCPServer("book")


@server.tool(title="Add a line")
async def add_line(text: str, ctx: Context, times: int = 1) -> str:
    await ctx.report_progress(1, 2, "dips the pen")
    if text == "boom":
        raise ValueError("the pen is dry")
    with book.open("a") as file:
        file.write(f"{text}\\n" * times)
    return f"added {text}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def count_lines() -> int:
    return len(book.read_text().splitlines()) if book.exists() else 0


server.run()
"""


@dataclass
class Host:
    """An MCP host that has started the proxy, in the SDK's own words."""

    harness: Harness
    portal: BlockingPortal
    client: Client
    book: Path
    parameters: StdioServerParameters
    told: list[str] = field(default_factory=list)

    @contextmanager
    def another(self) -> Iterator[Host]:
        """A host that starts the same proxy once more, and ends it."""
        client = Client(self.parameters)
        with self.portal.wrap_async_context_manager(client):
            yield replace(self, client=client, told=[])

    def calls(self, tool: str, **arguments: Any) -> Future[CallToolResult]:
        """Call a tool; what it is told meanwhile is noted."""

        async def tell(_at: float, _of: float | None, message: str | None) -> None:
            self.told.append(message or "")

        call = partial(self.client.call_tool, tool, arguments, progress_callback=tell)
        return self.portal.start_task_soon(call)

    def card(self, text: str, having: str = "approve") -> dict[str, Any]:
        """The card with this text that Ana sees, once it has that button."""

        def look() -> dict[str, Any] | None:
            seen = self.harness.person("ana").everything(SUPPORT)
            found = (m for m in seen if text in words(m) and having in action_ids(m))
            return next(found, None)

        found: dict[str, Any] = self.harness.slack.wait(look, 20)
        return found

    def approves(self, text: str) -> None:
        """Ana approves the card with this text."""
        card = self.card(text)
        self.harness.person("ana").click(SUPPORT, card["ts"], "approve")

    def lines(self) -> list[str]:
        """What was written in the book."""
        return self.book.read_text().splitlines() if self.book.exists() else []


@contextmanager
def hosting(
    harness: Harness, name: str, server: list[str], book: Path, mode: str, *options: str
) -> Iterator[Host]:
    """A host that has started the proxy before this server, with a key of this name."""
    wanted = KeyWanted(name, "@ben", tools=("*",))
    key = say_to_the_bot(wanted, harness.app.core.store.path).key
    web = harness.app.ways_in.web
    assert web is not None
    where = ["--channel", "#support", "--prefix", "shop_"]
    command = ["-m", "bot", "mcp-proxy", *where, *options, "--", *server]
    environment = {
        "COUNTERSIGN_URL": web.url,
        "COUNTERSIGN_API_KEY": key,
        "PYTHONPATH": str(ROOT),
        "PATH": os.environ["PATH"],
    }
    parameters = StdioServerParameters(command=sys.executable, args=command, env=environment)
    with start_blocking_portal() as portal:
        client = Client(parameters, mode=mode)
        with portal.wrap_async_context_manager(client):
            yield Host(harness, portal, client, book, parameters)


@pytest.fixture(scope="module", params=["auto", "legacy"])
def host(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Host]:
    """A bot over HTTP, and a host with the proxy before a server; both protocol generations."""
    folder = tmp_path_factory.mktemp("proxy")
    harness = Harness(folder, FakeTools().tools, POLICY, Transport.HTTP)
    server, book = folder / "server.py", folder / "book.txt"
    server.write_text(SERVER)
    command = [sys.executable, str(server), str(book)]
    with hosting(
        harness, "desk", command, book, request.param, "--trust-hints", "--hold", "6"
    ) as made:
        yield made
    harness.close()


def said(result: CallToolResult) -> str:
    """The words of a result."""
    return "\n".join(each.text for each in result.content if isinstance(each, TextContent))


def test_the_servers_tools_are_listed_through(host: Host) -> None:
    """As they are, and two that ask people."""
    listed = host.portal.call(host.client.list_tools)
    names = [each.name for each in listed.tools]
    assert names == ["add_line", "count_lines", "ask_person", "request_approval"]
    assert listed.tools[0].input_schema["properties"]["text"] == {"title": "Text", "type": "string"}


def test_a_call_runs_once_it_is_approved(host: Host) -> None:
    """The host waits and hears that it does; the record has what came of it."""
    call = host.calls("add_line", text="a pond pump")
    card = host.card("a pond pump")
    assert "Add a line at shop: text a pond pump" in words(card)  # whose tool it is
    assert "those of the program “desk”, which does this itself" in words(card)
    assert "a pond pump" not in host.lines()
    host.approves("a pond pump")
    result = call.result(30)
    assert (said(result), result.is_error) == ("added a pond pump", False)
    assert host.lines().count("a pond pump") == 1
    assert any("waits for people" in each for each in host.told)
    assert host.told[-1] == "add_line is at 1 of 2 · dips the pen"
    arrived(host.harness)
    host.harness.settle()
    thread = card.get("thread_ts", card["ts"])
    assert "Done: Add a line at shop: text a pond pump" in str(host.harness.thread(SUPPORT, thread))


def test_what_policy_allows_asks_nobody(host: Host) -> None:
    """A server whose hints are trusted reads without a card."""
    result = host.calls("count_lines").result(30)
    assert said(result) == str(len(host.lines()))


def test_edited_arguments_are_those_that_run(host: Host) -> None:
    """Ana changes the text, Cleo approves: that is what the server gets."""
    call = host.calls("add_line", text="a red bench")
    card = host.card("a red bench")
    open_modal(host.harness, "ana", SUPPORT, card, "edit")
    host.harness.person("ana").submit(typed(text="a green bench"))
    arrived(host.harness)
    card = host.card("a green bench")
    host.harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    assert said(call.result(30)) == "added a green bench"
    assert "a red bench" not in host.lines()


def test_rejected_and_failed(host: Host) -> None:
    """The host hears why, as a tool's error; what fails is told as failed."""
    call = host.calls("add_line", text="a bad idea")
    reject(host.harness, "ana", SUPPORT, host.card("a bad idea"), "not in this book")
    result = call.result(30)
    assert result.is_error
    assert "not in this book" in said(result)
    call = host.calls("add_line", text="boom")
    host.approves("boom")
    result = call.result(30)
    assert result.is_error
    assert "Error executing tool add_line" in said(result)
    assert "boom" not in host.lines()


def test_the_same_call_again_adopts_what_waits(host: Host) -> None:
    """A host that was told to come back asks nobody twice; once done, it is a new call."""
    result = host.calls("add_line", text="a slow team").result(30)
    assert result.is_error
    assert "it is not asked twice" in said(result)
    again = host.calls("add_line", text="a slow team")
    host.approves("a slow team")
    assert said(again.result(30)) == "added a slow team"
    cards = [m for m in host.harness.person("ana").everything(SUPPORT) if "a slow team" in words(m)]
    assert sum("asks: Add a line" in words(m) for m in cards) == 1
    third = host.calls("add_line", text="a slow team")
    assert "the same was done already for this program" in words(host.card("a slow team"))
    assert host.lines().count("a slow team") == 1
    host.approves("a slow team")
    third.result(30)


def test_a_host_that_gives_up_leaves_its_request(host: Host) -> None:
    """It cancels the call, which asks people still: nothing runs for nobody, and the same call
    again is asked no second time.
    """
    given_up = host.calls("add_line", text="a shy robin")
    host.card("a shy robin")
    given_up.cancel()
    host.approves("a shy robin")
    arrived(host.harness)
    assert "a shy robin" not in host.lines()
    again = host.calls("add_line", text="a shy robin")
    assert said(again.result(30)) == "added a shy robin"
    assert host.lines().count("a shy robin") == 1


def test_a_proxy_started_anew_adopts_what_waits(host: Host) -> None:
    """The same call of its next life goes on with the request there is, and runs once."""
    with host.another() as first:
        first.calls("add_line", text="a patient fern")
        host.card("a patient fern")
    with host.another() as second:
        call = second.calls("add_line", text="a patient fern")
        host.harness.slack.wait(lambda: second.told, 20)
        host.approves("a patient fern")
        assert said(call.result(30)) == "added a patient fern"
    seen = host.harness.person("ana").everything(SUPPORT)
    cards = [each for each in seen if "a patient fern" in words(each)]
    assert sum("asks: Add a line" in words(each) for each in cards) == 1
    assert host.lines().count("a patient fern") == 1


def test_people_are_asked(host: Host) -> None:
    """An approval of what the agent does by other means, and what it gets is as approved."""
    call = host.calls("request_approval", title="Repaint the shed", details="In red, on Monday")
    host.approves("Repaint the shed")
    assert said(call.result(30)).endswith("nothing else: In red, on Monday")
    wrong = host.calls("request_approval", title="Repaint the shed").result(30)
    assert "does not take that" in said(wrong)
