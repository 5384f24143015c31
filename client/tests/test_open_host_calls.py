"""What the proxy remembers of calls made by MCP hosts is limited."""

from __future__ import annotations

from countersign import Countersign
from countersign.mcp_proxy.held_calls import MAX_KNOWN_CALLS, OpenHostCalls


def test_host_calls_given_up_are_forgotten_in_the_end() -> None:
    """A host that makes call after call and gives each up fills no memory.

    A call that one waits for is kept.
    """
    wishes = OpenHostCalls(Countersign("http://localhost:1", "csk_x"), {}, "server")
    waits = wishes.find_or_add_host_call("note", {"text": "somebody waits"})
    with wishes.forget_call_when_answered(waits):
        first = wishes.find_or_add_host_call("note", {"text": "0"})
        for number in range(MAX_KNOWN_CALLS + 10):
            wishes.find_or_add_host_call("note", {"text": str(number)})
        assert wishes.find_or_add_host_call("note", {"text": "somebody waits"}) is waits
        assert wishes.find_or_add_host_call("note", {"text": "0"}) is not first
        last = wishes.find_or_add_host_call("note", {"text": str(MAX_KNOWN_CALLS)})
        assert wishes.find_or_add_host_call("note", {"text": str(MAX_KNOWN_CALLS)}) is last
