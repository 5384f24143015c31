"""A server asks somebody amid a call: asked by one replica, answered at another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bot.demo.model_server import Turn
from bot.mcp.server_connection import fetch_tool_definitions
from bot.mcp.server_file import write_accepted_tools
from storage.models import Call
from storage.states import CallStatus
from tests.cluster.cluster import Cluster
from tests.cluster.replica import Replica
from tests.record_checks import find_first_broken_row
from tests.servers.support import over_http
from tests.stories.messages import action_ids, words
from tests.stories.over_http import asked_at, free_port
from tests.stories.test_servers import place

pytestmark = [pytest.mark.long, pytest.mark.cluster]
C = CallStatus
Begin = Callable[[], Replica]


@pytest.fixture
def begin(cluster: Cluster) -> Any:
    """Begins a replica with the tools of a depot; Slack sends all that comes to the last one."""
    with over_http(cluster.folder) as server:
        file = cluster.folder / "servers.toml"
        file.write_text(f'[[server]]\nname = "depot"\nurl = "{server.url}"\n')
        write_accepted_tools(
            cluster.folder / "servers.lock.json", {server.name: fetch_tool_definitions(server)}
        )

        def begun() -> Replica:
            address = f"127.0.0.1:{free_port()}"
            secret = cluster.slack.world.app.signing_secret
            more = {"SLACK_SIGNING_SECRET": secret, "COUNTERSIGN_SERVERS": str(file)}
            made = cluster.replica(COUNTERSIGN_HTTP=address, SLACK_APP_TOKEN="", **more)
            asked_at(cluster.slack.world.app.manifest, f"http://{address}")
            return made

        yield begun
        for each in cluster.replicas:
            each.kill()


def put(cluster: Cluster, word: str, item: str) -> dict[str, Any]:
    """Ben asks for it, somebody approves; returns what the server asks then."""
    cluster.planner.script(Turn(calls=[("depot_put", {"item": item})]))
    cluster.ask(word)
    cluster.wait(lambda: cluster.card(word))
    cluster.approve(word)
    asked: dict[str, Any] = cluster.wait(lambda: cluster.card(word, "answer"))
    return asked


def answer(cluster: Cluster, word: str, asked: dict[str, Any]) -> None:
    """Ben opens the question and says where."""
    ben = cluster.slack.person("ben")
    ben.click(cluster.threads[word][0], asked["ts"], "answer")
    cluster.wait(ben.view)
    assert ben.submit(place("upper", "7"))["outcome"] == "closed"


def says(cluster: Cluster, word: str, text: str) -> bool:
    """Whether the bot has said this in that thread."""
    return any(text in words(each) for each in cluster.said(word))


def stands(cluster: Cluster) -> dict[str, CallStatus]:
    """How the calls stand, by their tools."""
    return {each.tool: each.status for each in cluster.all(Call)}


def test_asked_by_one_and_answered_at_the_other(cluster: Cluster, begin: Begin) -> None:
    """The answer reaches the server by the replica whose call it is."""
    begin()
    asked = put(cluster, "w1", "a lamp")
    begin()
    cluster.planner.script(Turn(text="It is there."))
    answer(cluster, "w1", asked)
    cluster.wait(lambda: says(cluster, "w1", "It is there."))
    assert (cluster.folder / "put").read_text().splitlines() == ["a lamp upper 7 "]
    assert stands(cluster) == {"depot_put": C.SUCCEEDED, "ask_person": C.ANSWERED}
    with cluster.store.read() as tx:
        assert find_first_broken_row(tx) is None


def test_the_replica_that_asked_dies(cluster: Cluster, begin: Begin) -> None:
    """No answer can reach the server: the question goes, people are told that nobody knows how the
    call ended, and it is not made again.
    """
    one = begin()
    asked = put(cluster, "w1", "a lamp")
    begin()
    one.kill()
    cluster.wait(lambda: says(cluster, "w1", "No longer needed"), 30)
    cluster.wait(lambda: cluster.card("w1", "resolve_not_done"), 30)
    assert stands(cluster) == {"depot_put": C.UNKNOWN, "ask_person": C.CANCELLED}
    late = cluster.slack.person("ben")
    late.click(cluster.threads["w1"][0], asked["ts"], "answer", seen=asked)
    cluster.planner.script(Turn(text="It is still here."))
    cluster.approve("w1", button="resolve_not_done")
    cluster.wait(lambda: says(cluster, "w1", "It is still here."))
    assert not (cluster.folder / "put").exists()
    assert late.view() is None
    assert stands(cluster)["depot_put"] is C.FAILED


def test_answered_before_anybody_knows_that_the_replica_is_dead(
    cluster: Cluster, begin: Begin
) -> None:
    """The answer is kept, and the call is unknown all the same: the server never heard it."""
    one = begin()
    asked = put(cluster, "w1", "a lamp")
    begin()
    one.kill()
    answer(cluster, "w1", asked)
    cluster.wait(lambda: cluster.card("w1", "resolve_not_done"), 30)
    assert stands(cluster) == {"depot_put": C.UNKNOWN, "ask_person": C.ANSWERED}
    assert not [each for each in cluster.said("w1") if "answer" in action_ids(each)]
    assert not (cluster.folder / "put").exists()
