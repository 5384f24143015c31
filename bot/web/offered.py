"""What hosts are offered over HTTP: Countersign's own tools, and the two that ask people.

Each call is asked by the API with the host's own key: nothing is allowed here that is not there.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import mcp.types as types
from anyio import create_task_group, sleep, to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from starlette.requests import Request as HttpRequest

from bot import __version__
from countersign.client import Countersign
from countersign.errors import CountersignError, NotAllowed, trouble_of
from countersign.mcp_proxy.held_calls import HeldCalls
from countersign.mcp_proxy.people import TOOLS, PeopleTools
from countersign.mcp_proxy.waiting import Patience, StillWaitsError, Told
from countersign.request import Request

HOLD = 50.0  # seconds: hosts wait for a minute where they are told nothing
WHY = "reason_for_approver"  # as the tools' schemas have it: told beside the arguments
NOT_YET = "It has not come to an end yet{link}."
STOPPING = (
    "Countersign is being stopped or started anew. Make the same call again in a moment, with the "
    "same arguments: what waits is not asked twice."
)
GLANCE = 0.25  # seconds between two looks at whether this process stops
PLACE = "/mcp"
MOST_KEYS = 200  # of which is known what they wait for, each place and name by itself
WHERE = ("channel", "requester")  # that a host may say; by default those of the key
HEADER, META = "countersign-{}", "countersign/{}"  # by which it says them
Context = ServerRequestContext[Any]
Listed = Callable[[str], Iterable[types.Tool]]


@dataclass(frozen=True, slots=True)
class _Caller:
    """One key, where and in whose name it asks, and what it waits for."""

    countersign: Countersign
    around: Mapping[str, str]  # channel, requester
    held_calls: HeldCalls
    people: PeopleTools


class Offered:
    """Answers MCP hosts; for one event loop."""

    def __init__(self, url: str, listed: Listed, is_stopping: Callable[[], bool]) -> None:
        """`url`: where the API is; `listed` returns the tools that a key may ask for.

        `is_stopping`: who waits is told to come back, as nobody will answer here.
        """
        self._url = url
        self._is_stopping = is_stopping
        self._listed = listed
        self._callers: OrderedDict[tuple[str, ...], _Caller] = OrderedDict()
        self._lock = threading.Lock()

    def server(self) -> Server[Any]:
        """Return what hosts talk to."""
        return Server(
            "countersign",
            version=__version__,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def _list(
        self, context: Context, _: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        found = await to_thread.run_sync(partial(self._listed, _key(context)))
        return types.ListToolsResult(tools=[*found, *TOOLS])

    async def _call(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Answer a call, or have the host make it again where this process ends before that."""
        found = _said(STOPPING)
        async with create_task_group() as both:

            async def look() -> None:
                while not self._is_stopping():
                    await sleep(GLANCE)
                both.cancel_scope.cancel()

            both.start_soon(look)
            found = await self._answer(context, params)
            both.cancel_scope.cancel()
        return found

    async def _answer(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        given, told = dict(params.arguments or {}), 0

        async def tell(words: str) -> None:
            nonlocal told
            told += 1
            await context.session.report_progress(float(told), None, f"{params.name} {words}")

        try:
            caller = self._caller(_key(context), _around(context, params))
            if params.name in {each.name for each in TOOLS}:
                return await caller.people.call(params.name, given, tell)
            return await _asked(caller, params.name, given, tell)
        except (StillWaitsError, CountersignError) as refusal:
            return _said(str(refusal))

    def _caller(self, key: str, around: dict[str, str]) -> _Caller:
        name = (key, *(around.get(each, "") for each in WHERE))
        with self._lock:
            found = self._callers.pop(name, None)
            if found is None:
                countersign = Countersign(self._url, key)
                held = HeldCalls(countersign, around, HOLD, PLACE)
                people = PeopleTools(countersign, held, around, HOLD)
                found = _Caller(countersign, around, held, people)
            self._callers[name] = found
            while len(self._callers) > MOST_KEYS:
                self._callers.popitem(last=False)
        return found


async def _asked(
    caller: _Caller, tool: str, given: Mapping[str, Any], told: Told
) -> types.CallToolResult:
    """Ask for a tool of Countersign's own, which it runs itself; returns its result."""
    arguments = {name: value for name, value in given.items() if name != WHY}
    wishes = caller.held_calls.wishes
    wish = wishes.of(tool, arguments)
    around = {**caller.around, "run": wish.run, "reason": str(given.get(WHY) or "")}
    ask = partial(caller.countersign.open_request, tool, arguments, **around)
    with wishes.answered(wish):
        request = await wishes.request(wish, ask)
        patience = Patience(caller.countersign, HOLD, told)
        request = await patience.ended(request, "waits for people", NOT_YET)
        if trouble := trouble_of(request):
            raise trouble
    return _result(request)


def _said(sentence: str) -> types.CallToolResult:
    content = types.TextContent(type="text", text=sentence)
    return types.CallToolResult(content=[content], is_error=True)


def _result(request: Request) -> types.CallToolResult:
    is_text = isinstance(request.result, str)
    text = request.result if is_text else json.dumps(request.result, ensure_ascii=False)
    structured = request.result if isinstance(request.result, dict) else None
    content = types.TextContent(type="text", text=text)
    return types.CallToolResult(content=[content], structured_content=structured)


def _key(context: Context) -> str:
    """Return the key that the host has sent; whoever calls this has looked at it before."""
    return _headers(context).get("authorization", "").partition(" ")[2].strip()


def _around(context: Context, params: types.CallToolRequestParams) -> dict[str, str]:
    """Return where and in whose name a call is asked: as its metadata says, else as the host's
    headers do; the API looks whether the key may. Raises NotAllowed for what is no text.
    """
    found: dict[str, str] = {}
    meta: Mapping[str, Any] = {**(params.meta or {})}
    for each in WHERE:
        said = meta.get(META.format(each))
        if said is None:
            said = _headers(context).get(HEADER.format(each), "")
        if not isinstance(said, str):
            raise NotAllowed(f"The metadata {META.format(each)} has to be a text.")
        if said.strip():
            found[each] = said.strip()
    return found


def _headers(context: Context) -> Mapping[str, str]:
    request = context.request
    assert isinstance(request, HttpRequest)
    return request.headers
