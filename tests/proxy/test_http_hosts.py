"""MCP hosts over HTTP use Countersign's own tools, each with its own key."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.types import CallToolResult, TextContent

from bot.config.connection_settings import Transport
from bot.http.api_gate import MAX_MCP_HOST_REQUESTS
from storage.models import Call, Run
from tests.client_keys import make_key
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import reject

pytestmark = pytest.mark.long
POLICY = """
[defaults]
approvers = ["UANA00001", "UCLEO0001"]

[[rule]]
name = "those of the channel"
tool = "request_approval"
verdict = "ask"
approvers = ["channel"]
"""
WISH = {"title": "Repaint the shed", "details": "In red."}
T = TypeVar("T")


@dataclass
class Hosts:
    """A bot over HTTP, and hosts with a key of it."""

    harness: Harness
    fakes: FakeTools
    portal: BlockingPortal
    key: str
    mode: str

    def run(
        self, work: Callable[[Client], Awaitable[T]], key: str = "", **headers: str
    ) -> Future[T]:
        """Connect a host that sends these headers as well, and have it do this."""

        async def all_of_it() -> T:
            async with self._connected(key or self.key, headers) as client:
                return await work(client)

        return self.portal.start_task_soon(all_of_it)

    def start_call(self, tool: str, **arguments: Any) -> Future[CallToolResult]:
        """Connect a host, and start a call of a tool."""
        return self.run(lambda client: client.call_tool(tool, arguments))

    @asynccontextmanager
    async def _connected(self, key: str, more: dict[str, str]) -> AsyncIterator[Client]:
        web = self.harness.app.endpoints.web
        assert web is not None
        headers = {"Authorization": f"Bearer {key}", **more}
        async with create_mcp_http_client(headers=headers) as http:
            line = streamable_http_client(f"{web.url}/mcp", http_client=http)
            async with Client(line, mode=self.mode) as client:
                yield client

    def wait_for_card(self, text: str, channel: str = "") -> dict[str, Any]:
        """The card with this text in Ana's direct messages or this channel, with its buttons."""
        ana = self.harness.person("ana")

        def look() -> dict[str, Any] | None:
            found = (m for m in ana.everything(channel or ana.dm_channel) if text in words(m))
            return next((m for m in found if "approve" in action_ids(m)), None)

        found: dict[str, Any] = self.harness.slack.wait(look, 20)
        return found


@pytest.fixture(scope="module", params=["auto", "legacy"])
def hosts(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Hosts]:
    """Once for each generation of the protocol."""
    fakes = FakeTools()
    harness = Harness(tmp_path_factory.mktemp("hosts"), fakes.tools, POLICY, Transport.HTTP)
    tools = ("note", "request_approval", "ask_person")
    key = make_key(harness.app.core.store.path, "desk", "@ben", tools, service=True).key
    with start_blocking_portal() as portal:
        yield Hosts(harness, fakes, portal, key, request.param)
    harness.close()


def get_text(result: CallToolResult) -> str:
    """The text of a result."""
    return "\n".join(each.text for each in result.content if isinstance(each, TextContent))


def test_a_host_is_offered_only_what_its_key_may_ask_for(hosts: Hosts) -> None:
    """Nothing else, and nothing at all without a valid key."""
    listed = hosts.run(lambda client: client.list_tools()).result(30)
    assert [each.name for each in listed.tools] == ["note", "ask_person", "request_approval"]
    with pytest.raises(BaseException) as refused:
        hosts.run(lambda client: client.list_tools(), key="csk_no_such_key").result(30)
    assert refused.value is not None


def test_hosts_that_listen_for_messages_hold_up_nobody(hosts: Hosts) -> None:
    """Most hosts ask for a stream of messages as soon as they are connected; there is none."""
    web = hosts.harness.app.endpoints.web
    assert web is not None
    url, more = f"{web.url}/mcp", {"Authorization": f"Bearer {hosts.key}"}
    streams = MAX_MCP_HOST_REQUESTS + 1

    async def listen_and_list(client: Client) -> set[int]:
        limits = httpx2.Limits(max_connections=streams)
        async with (
            httpx2.AsyncClient(headers=more, limits=limits) as http,
            AsyncExitStack() as held,
        ):
            opened = [http.stream("GET", url) for _ in range(streams)]
            found = {(await held.enter_async_context(each)).status_code for each in opened}
            assert (await client.list_tools()).tools
            return found

    assert hosts.run(listen_and_list).result(30) == {405}


def test_a_tool_runs_once_it_is_approved(hosts: Hosts) -> None:
    """The bot runs it and returns the result; the card shows the reason."""
    call = hosts.start_call("note", text="from a host", reason_for_approver="The desk wants it.")
    card = hosts.wait_for_card("from a host")
    assert "The desk wants it." in words(card)
    ana = hosts.harness.person("ana")
    ana.click(ana.dm_channel, card["ts"], "approve")
    assert get_text(call.result(30)) == "noted from a host"
    assert hosts.fakes.did("note", "from a host") == 1


def test_a_rejected_or_forbidden_call_is_a_tool_error(hosts: Hosts) -> None:
    """With a sentence, and nothing runs."""
    call = hosts.start_call("note", text="not this one")
    ana = hosts.harness.person("ana")
    reject(
        hosts.harness, "ana", ana.dm_channel, hosts.wait_for_card("not this one"), "no more notes"
    )
    result = call.result(30)
    assert (result.is_error, "no more notes" in get_text(result)) == (True, True)
    result = hosts.start_call("wipe", text="everything").result(30)
    assert result.is_error
    assert hosts.fakes.did("note", "not this one") + hosts.fakes.did("wipe", "everything") == 0


@pytest.mark.parametrize("way", ["metadata", "headers", "both"])
@pytest.mark.parametrize("tool", ["note", "request_approval"])
def test_a_host_chooses_channel_and_requester_of_a_call(hosts: Hosts, way: str, tool: str) -> None:
    """By the call's metadata, which go before headers.

    The card is in that channel, whose people may decide if policy says so.
    """
    text = f"{tool} by {way}"
    meta = {"countersign/channel": "#support", "countersign/requester": "@cleo"}
    headers = {"Countersign-Channel": "#support", "Countersign-Requester": "@cleo"}
    if way == "both":
        headers = {"Countersign-Channel": "#nowhere", "Countersign-Requester": "@nobody"}
    given = {"text": text} if tool == "note" else {**WISH, "title": text}
    call = hosts.run(
        lambda client: client.call_tool(
            tool,
            given,
            meta=None if way == "headers" else meta,  # type: ignore[arg-type] # any keys
        ),
        **({} if way == "metadata" else headers),
    )
    card = hosts.wait_for_card(text, SUPPORT)
    [asked] = [each for each in hosts.harness.all(Run) if each.id == get_run_id(hosts, tool)]
    assert (asked.channel, asked.requester) == (SUPPORT, "UCLEO0001")
    hosts.harness.person("ana").click(SUPPORT, card["ts"], "approve")
    result = call.result(30)
    assert not result.is_error
    if tool == "note":
        assert hosts.fakes.did("note", text) == 1


def get_run_id(hosts: Hosts, tool: str) -> str:
    """The request of the newest call of a tool."""
    found: Call = hosts.harness.all(Call, Call.tool == tool)[-1]
    return found.run_id


@pytest.mark.parametrize(
    ("meta", "why"),
    [
        ({"countersign/channel": "#no-such"}, "no-such"),
        ({"countersign/channel": 7}, "must be a text"),
        ({"countersign/requester": "@nobody"}, "nobody"),
    ],
)
def test_an_unknown_channel_or_requester_is_refused(
    hosts: Hosts, meta: dict[str, Any], why: str
) -> None:
    """Nothing is asked elsewhere instead."""
    before = len(hosts.harness.all(Run))
    call = hosts.run(
        lambda client: client.call_tool("note", {"text": "lost"}, meta=meta)  # type: ignore[arg-type] # any keys
    )
    result = call.result(30)
    assert (result.is_error, why in get_text(result)) == (True, True)
    assert len(hosts.harness.all(Run)) == before
