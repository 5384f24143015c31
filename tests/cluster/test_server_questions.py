"""An MCP server asks somebody during a call: one replica asks, another gets the answer."""

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
StartReplica = Callable[[], Replica]


@pytest.fixture
def start_replica(cluster: Cluster) -> Any:
    """Starts a replica with the depot's tools; Slack sends everything to the last one."""
    with over_http(cluster.folder) as server:
        file = cluster.folder / "servers.toml"
        file.write_text(f'[[server]]\nname = "depot"\nurl = "{server.url}"\n')
        write_accepted_tools(
            cluster.folder / "servers.lock.json", {server.name: fetch_tool_definitions(server)}
        )

        def start() -> Replica:
            address = f"127.0.0.1:{free_port()}"
            secret = cluster.slack.world.app.signing_secret
            more = {"SLACK_SIGNING_SECRET": secret, "COUNTERSIGN_SERVERS": str(file)}
            made = cluster.start_replica(COUNTERSIGN_HTTP=address, SLACK_APP_TOKEN="", **more)
            asked_at(cluster.slack.world.app.manifest, f"http://{address}")
            return made

        yield start
        for each in cluster.replicas:
            each.kill()


def ask_and_approve(cluster: Cluster, word: str, item: str) -> dict[str, Any]:
    """Ben asks for it, somebody approves; return the server's question."""
    cluster.planner.script(Turn(calls=[("depot_put", {"item": item})]))
    cluster.ask(word)
    cluster.wait(lambda: cluster.card(word))
    cluster.approve(word)
    asked: dict[str, Any] = cluster.wait(lambda: cluster.card(word, "answer"))
    return asked


def answer_question(cluster: Cluster, word: str, asked: dict[str, Any]) -> None:
    """Ben opens the question and answers it."""
    ben = cluster.slack.person("ben")
    ben.click(cluster.threads[word][0], asked["ts"], "answer")
    cluster.wait(ben.view)
    assert ben.submit(place("upper", "7"))["outcome"] == "closed"


def is_said(cluster: Cluster, word: str, text: str) -> bool:
    """Whether the bot has written this in that thread."""
    return any(text in words(each) for each in cluster.list_messages(word))


def read_statuses(cluster: Cluster) -> dict[str, CallStatus]:
    """The statuses of the calls, by their tools."""
    return {each.tool: each.status for each in cluster.all(Call)}


def test_a_question_of_one_replica_is_answered_at_another(
    cluster: Cluster, start_replica: StartReplica
) -> None:
    """The answer reaches the server through the replica that runs the call."""
    start_replica()
    asked = ask_and_approve(cluster, "w1", "a lamp")
    start_replica()
    cluster.planner.script(Turn(text="It is there."))
    answer_question(cluster, "w1", asked)
    cluster.wait(lambda: is_said(cluster, "w1", "It is there."))
    assert (cluster.folder / "put").read_text().splitlines() == ["a lamp upper 7 "]
    assert read_statuses(cluster) == {"depot_put": C.SUCCEEDED, "ask_person": C.ANSWERED}
    with cluster.store.read() as tx:
        assert find_first_broken_row(tx) is None


def test_a_dead_replicas_question_is_withdrawn(
    cluster: Cluster, start_replica: StartReplica
) -> None:
    """No answer can reach the server: the question is withdrawn, people are asked for the outcome,
    and the call is not repeated.
    """
    one = start_replica()
    asked = ask_and_approve(cluster, "w1", "a lamp")
    start_replica()
    one.kill()
    cluster.wait(lambda: is_said(cluster, "w1", "No longer needed"), 30)
    cluster.wait(lambda: cluster.card("w1", "resolve_not_done"), 30)
    assert read_statuses(cluster) == {"depot_put": C.UNKNOWN, "ask_person": C.CANCELLED}
    late = cluster.slack.person("ben")
    late.click(cluster.threads["w1"][0], asked["ts"], "answer", seen=asked)
    cluster.planner.script(Turn(text="It is still here."))
    cluster.approve("w1", button="resolve_not_done")
    cluster.wait(lambda: is_said(cluster, "w1", "It is still here."))
    assert not (cluster.folder / "put").exists()
    assert late.view() is None
    assert read_statuses(cluster)["depot_put"] is C.FAILED


def test_an_answer_to_a_dead_replica_leaves_the_call_unknown(
    cluster: Cluster, start_replica: StartReplica
) -> None:
    """The answer is stored, but the server never got it."""
    one = start_replica()
    asked = ask_and_approve(cluster, "w1", "a lamp")
    start_replica()
    one.kill()
    answer_question(cluster, "w1", asked)
    cluster.wait(lambda: cluster.card("w1", "resolve_not_done"), 30)
    assert read_statuses(cluster) == {"depot_put": C.UNKNOWN, "ask_person": C.ANSWERED}
    assert not [each for each in cluster.list_messages("w1") if "answer" in action_ids(each)]
    assert not (cluster.folder / "put").exists()
