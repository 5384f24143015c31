"""HTTP requests to one process for workspaces of another: answers are passed on unchanged."""

from __future__ import annotations

import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bot.config.connection_settings import Transport
from bot.config.settings import Settings
from bot.http.keys import generate_api_key
from bot.signing_key import open_store
from storage import programs
from tests.cluster.hosts import HostProcess, Hosts, hosts_in
from tests.postgres_server import binaries
from tests.stories.messages import action_ids
from tests.stories.steps import typed
from tests.web.api.program import ACTION
from tests.web.api.test_two_readings import ACCEPTED, INITIALIZE

pytestmark = [
    pytest.mark.long,
    pytest.mark.cluster,
    pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed"),
]
USE = {
    "hook_event_name": "PreToolUse",
    "session_id": "s1",
    "tool_use_id": "u1",
    "cwd": "/home/ben",
    "tool_name": "Bash",
    "tool_input": {"command": "rm -rf build"},
}


def create_key(hosts: Hosts, team: str, environ: dict[str, str]) -> str:
    """Make a key of Ben's, in the record of a workspace that no process serves yet."""
    of_team = environ | {"COUNTERSIGN_WORKSPACE": team, "SLACK_BOT_TOKEN": "xoxb-of-nobody"}
    settings = Settings.load(of_team, None, transport=Transport.HTTP)
    store, text = open_store(settings, datetime.now(UTC), lambda: "", exclusive=False), None
    try:
        text = generate_api_key()
        row = programs.ProgramApiKey(
            id=text.id,
            team=team,
            name="desk",
            person=hosts.person(team, "ben").id,
            tools='["*"]',
            per_hour=100,
            hash=text.secret_hash,
            made_at=datetime.now(UTC),
        )
        with store.write() as tx:
            assert programs.store_api_key(tx, row, "system")
    finally:
        store.close()
    return str(text)


class Program:
    """A program of a workspace that asks one process."""

    def __init__(self, process: HostProcess, team: str, key: str) -> None:
        self._process, self._team, self._key = process, team, key

    def begin(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send a request; return the answer, whose head has arrived."""
        line = http.client.HTTPConnection(self._process.address, timeout=60)
        sent = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body)
        line.request(method, f"/w/{self._team}{path}", data, sent | headers)
        return line.getresponse()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Send a request; return its status and JSON."""
        with self.begin(method, path, body, **headers) as answer:
            return answer.status, json.loads(answer.read())


def decide(hosts: Hosts, channel: str) -> None:
    """Approve the only card in a channel of the first workspace, once it is there."""
    person = hosts.person(hosts.teams[0])
    [card] = hosts.wait(
        lambda: [each for each in person.everything(channel) if "approve" in action_ids(each)]
    )
    assert person.click(channel, card["ts"], "approve").wait() == "acked"


@pytest.fixture
def hosts(tmp_path: Path) -> Any:
    """Two workspaces and two processes, one of which owns both."""
    with hosts_in(tmp_path, 2) as made:
        owner = made.start_process()
        made.wait(lambda: made.has_all(owner))
        made.start_process()
        yield made


@pytest.fixture
def program(hosts: Hosts) -> Program:
    """A program that asks the process without workspaces."""
    owner, other = hosts.processes
    key = create_key(hosts, hosts.teams[0], owner.environ)
    return Program(other, hosts.teams[0], key)


def test_a_long_wait_is_passed_on_to_the_owner(hosts: Hosts, program: Program) -> None:
    """The query is passed on, too; the wait ends when somebody decides."""
    channel = f"C{hosts.teams[0][3:]}0"
    wanted = {"action": ACTION, "arguments": {"version": "7", "env": "prod"}, "channel": channel}
    status, asked = program.ask("POST", "/v1/requests", wanted)
    assert status == 201, asked
    with ThreadPoolExecutor(1) as apart:
        waiting = apart.submit(program.ask, "GET", f"/v1/requests/{asked['id']}?wait=50")
        decide(hosts, channel)
        status, found = waiting.result()
    assert found["status"] == "approved"
    assert program.ask("GET", "/v1/requests/unknown")[0] == 404
    assert "csk_" not in hosts.processes[1].log()


def test_a_streamed_answer_is_passed_on_as_it_comes(hosts: Hosts, program: Program) -> None:
    """The head of a hook's answer comes at once, the rest after the decision."""
    channel = f"C{hosts.teams[0][3:]}0"
    with program.begin("POST", f"/v1/hooks/claude-code?channel={channel}", USE) as answer:
        assert answer.status == 200
        decide(hosts, channel)
        said = json.loads(answer.read())
    assert said["hookSpecificOutput"]["permissionDecision"] == "allow"


def test_an_mcp_host_is_answered_by_the_owner(program: Program) -> None:
    """By the MCP server of its workspace."""
    with program.begin("POST", "/mcp", INITIALIZE, **ACCEPTED) as answer:
        assert answer.status == 200
        assert "serverInfo" in answer.read().decode()


def test_commands_and_dialogs_are_answered_by_the_owner(hosts: Hosts) -> None:
    """Slack gets the answers from the process that it asked, field errors included."""
    team, other = hosts.teams[1], hosts.processes[1]
    hosts.ask(team, "w0")
    hosts.wait(lambda: hosts.card("w0"))
    hosts.send_to(other.address)
    assert hosts.click("w0", "edit").wait() == "acked"
    person = hosts.person(team)
    hosts.wait(person.view)
    assert person.submit(typed(text=""))["outcome"] in ("errors", "invalid")
    assert person.submit(typed(text="w0"))["outcome"] in ("closed", "errors")
    said: Any = person.command(f"C{team[3:]}0", "/approvals")
    assert said.wait() == "acked"
    hosts.wait(lambda: any("w0" in str(each) for each in person.everything(f"C{team[3:]}0")))
    hosts.approve("w0")
    hosts.check_all()
    assert hosts.has_all(hosts.processes[0])


def test_workspaces_of_a_dead_process_are_taken_over(hosts: Hosts, program: Program) -> None:
    """Until then they may be unavailable."""
    owner, other = hosts.processes
    owner.kill()
    assert program.begin("GET", "/v1/requests").status in (503, 200)
    hosts.wait(lambda: hosts.has_all(other))
    assert program.ask("GET", "/v1/requests")[0] == 200


def test_a_killed_process_can_restart_at_its_address(hosts: Hosts) -> None:
    """It waits until its own leases have expired, as for another process.

    Slack is not told that it sent something twice.
    """
    owner, other = hosts.processes
    other.end()
    hosts.ask(hosts.teams[0], "w0")
    hosts.wait(lambda: hosts.card("w0"))
    owner.kill()
    hosts.begin(owner)
    hosts.click("w0").settled.wait(15)
    assert "does not answer" in owner.log()
    assert " 409 " not in owner.log()
    hosts.approve("w0")
    hosts.check_all()
