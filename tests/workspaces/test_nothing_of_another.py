"""Two workspaces with the same ids in them work at the same time, and share nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx2
import pytest

from bot.config.connection_settings import Transport
from storage.states import CallStatus
from tests.client_keys import make_key
from tests.stories.messages import elements
from tests.watch.log_lines import Lines, json_lines
from tests.workspaces.hosting import ANA, ONE, SUPPORT, TWO, Hosting, Workspace

WORDS = {ONE: ("quince", "Ana Ruiz", "Ben Okafor"), TWO: ("sorrel", "Anna Zweig", "Benno Zweig")}
ROUNDS = 4
HTTP: dict[str, Any] = {"trust_env": False, "timeout": 30}
SIGNED = """
[passkeys]
enrol = "self"
[defaults]
approvers = ["@shop-leads"]
deadline = "1h"
[[rule]]
tool = "wipe"
verdict = "ask"
signature = "passkey"
"""


@pytest.fixture(params=[Transport.HTTP, pytest.param(Transport.SOCKET, marks=pytest.mark.long)])
def hosting(make_hosting: Callable[..., Hosting], request: pytest.FixtureRequest) -> Hosting:
    """Both workspaces; people with the same ids have different names."""
    made = make_hosting(request.param)
    (made.folder / "policy.toml").write_text(SIGNED, "utf-8")
    for team, (_, ana, ben) in WORDS.items():
        people = made.slack.workspace(team).world.people
        people["ana"].real_name, people["ben"].real_name = ana, ben
    made.start()
    for team in made.teams:
        made.install(team)
    return made


@pytest.fixture
def lines() -> Iterator[Lines]:
    """The lines of the log."""
    with json_lines() as kept:
        yield kept


def play_request(workspace: Workspace, number: int) -> str:
    """Ask, look, edit or approve as people do; returns what they were shown."""
    word = WORDS[workspace.team][0]
    thread = workspace.ask(f"{word} {number}")
    card = workspace.card(thread)
    shown = [workspace.command("/approvals list"), workspace.home("ana", word)]
    shown += [workspace.command("/approvals requests", who="ben")]
    if number % 2:
        workspace.person("ben").edit(SUPPORT, thread, f"@bot note: {word} {number} edited")
    else:
        workspace.person("ana").click(SUPPORT, card["ts"], "approve")
        workspace.said(thread, "That is all.")
    workspace.person("ana").say(SUPPORT, f"and what of {word} {number}?", thread)
    return str(shown)


def list_words_of_other(team: str) -> list[str]:
    """List the words that only the other workspace has."""
    [other] = {ONE, TWO} - {team}
    return list(WORDS[other])


def assert_nothing_of_another(team: str, said: str) -> None:
    """Check that nothing of the other workspace is in this text."""
    found = [each for each in list_words_of_other(team) if each in said]
    found += [] if team == TWO else re.findall(f".{{40}}{TWO}.{{40}}", said)
    found += [] if team == ONE else re.findall(rf".{{0,40}}{ONE}\b.{{0,40}}", said)
    assert not found


@pytest.mark.long
def test_two_busy_workspaces_show_nothing_of_each_other(hosting: Hosting, lines: Lines) -> None:
    """Neither in records, log and metrics, nor in Home, commands and messages."""
    both = [hosting.workspace(team) for team in (ONE, TWO)]
    jobs = [partial(play_request, each, number) for number in range(ROUNDS) for each in both]
    with ThreadPoolExecutor(6) as pool:
        shown = list(pool.map(lambda job: job(), jobs))
    for job, seen in zip(jobs, shown, strict=True):
        assert_nothing_of_another(job.args[0].team, seen)
    for each in both:
        each.settle()
        word, ana, _ = WORDS[each.team]
        done = [call for call in each.calls() if call.status is CallStatus.SUCCEEDED]
        assert len(done) == len(range(0, ROUNDS, 2))
        assert_nothing_of_another(each.team, each.dump())
        assert word in each.dump()
        seen = str([each.person(who).everything(SUPPORT) for who in ("ana", "ben")])
        assert_nothing_of_another(each.team, seen)
        assert each.app is not None
        known = str([each.app.directory.find_person(ANA), each.app.directory.list_people()])
        assert ana in known
        assert_nothing_of_another(each.team, known)
    for number in range(0, ROUNDS, 2):
        for word, *_ in WORDS.values():
            assert hosting.fakes.did("note", f"{word} {number}") == 1
    check_log(lines)
    check_metrics(hosting)


def check_log(lines: Lines) -> None:
    """Check that each line about a run, a call or a delivery names its workspace."""
    ours = [each for each in lines.read() if str(each["logger"]).startswith("countersign")]
    assert {each.get("workspace") for each in ours} >= {ONE, TWO}
    about = [each for each in ours if "run_id" in each or "call_id" in each]
    assert about
    assert not [each for each in about if "workspace" not in each]
    for each in ours:
        if "workspace" in each:
            assert_nothing_of_another(each["workspace"], json.dumps(each))


def check_metrics(hosting: Hosting) -> None:
    """Check that calls are counted by workspace, and that the page has none of their words."""
    page = httpx2.get(f"{hosting.url}/metrics", **HTTP).text
    for team in (ONE, TWO):
        done = f'countersign_workspace_calls_total{{status="succeeded",workspace="{team}"}} 2.0'
        assert done in page
        assert f'countersign_workspace_pending_calls{{workspace="{team}"}}' in page
    assert not [each for team in (ONE, TWO) for each in WORDS[team] if each in page]


@pytest.mark.long
def test_a_programs_key_works_only_in_its_own_workspace(hosting: Hosting) -> None:
    """It is refused at the other's address, and sees only its own requests."""
    both = [hosting.workspace(team) for team in (ONE, TWO)]
    keys = {}
    for each in both:
        each.command("/approvals help")  # wakes the app
        made = make_key(each.folder / "countersign.db", "reports", "@ben", ["note"])
        keys[each.team] = {"Authorization": f"Bearer {made.key}"}
    ids = {}
    for each in both:
        asked = {"tool": "note", "arguments": {"text": WORDS[each.team][0]}, "channel": "#support"}
        at = f"{hosting.url}/w/{each.team}/v1/requests"
        answer = httpx2.post(at, json=asked, headers=keys[each.team], **HTTP)
        assert answer.status_code == 201, answer.text
        assert_nothing_of_another(each.team, answer.text)
        ids[each.team] = answer.json()["id"]
    for mine, other in ((ONE, TWO), (TWO, ONE)):
        for path in ("v1/requests", f"v1/requests/{ids[mine]}", f"v1/requests/{ids[other]}"):
            at = f"{hosting.url}/w/{other}/{path}"
            assert httpx2.get(at, headers=keys[mine], **HTTP).status_code == 401
        at = f"{hosting.url}/w/{mine}/v1/requests/{ids[other]}"
        assert httpx2.get(at, headers=keys[mine], **HTTP).status_code == 404
        at = f"{hosting.url}/w/{mine}/v1/requests/{ids[mine]}"
        said = httpx2.get(at, headers=keys[mine], **HTTP)
        assert said.status_code == 200
        assert_nothing_of_another(mine, said.text)
        assert initialize_mcp(hosting, mine, keys[mine]).status_code == 200
        assert initialize_mcp(hosting, other, keys[mine]).status_code == 401


def initialize_mcp(hosting: Hosting, team: str, key: dict[str, str]) -> httpx2.Response:
    """Initialise a session at a workspace's MCP endpoint."""
    about = {"protocolVersion": "2025-06-18", "capabilities": {}}
    hello: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    hello["params"] = {**about, "clientInfo": {"name": "host", "version": "1"}}
    accepts = {"Accept": "application/json, text/event-stream"}
    at = f"{hosting.url}/w/{team}/mcp"
    return httpx2.post(at, json=hello, headers=key | accepts, **HTTP)


def test_a_link_to_a_signing_page_works_only_in_its_own_workspace(hosting: Hosting) -> None:
    """It does not exist at the other's address."""
    links = {}
    for team in (ONE, TWO):
        one = hosting.workspace(team)
        thread = one.ask(WORDS[team][0], "wipe")
        card = one.card(thread)
        one.person("ana").click(SUPPORT, card["ts"], "approve")
        links[team] = hosting.wait(partial(find_link, one))
    for mine, other in ((ONE, TWO), (TWO, ONE)):
        assert links[mine].startswith(f"{hosting.url}/w/{mine}/")
        page = httpx2.get(links[mine], **HTTP)
        assert page.status_code == 200
        assert_nothing_of_another(mine, page.text)
        elsewhere = links[mine].replace(f"/w/{mine}/", f"/w/{other}/")
        assert httpx2.get(elsewhere, **HTTP).status_code == 404
        assert (
            httpx2.get(
                links[mine].replace(f"/w/{mine}", ""), trust_env=False, timeout=30
            ).status_code
            == 404
        )


def find_link(workspace: Workspace) -> str:
    """Find the address in the private answer to a click of Ana's; "" until it is there."""
    seen = workspace.person("ana").everything(SUPPORT)
    urls = [str(each.get("url")) for message in seen for each in elements(message)]
    return next((each for each in urls if each.startswith("http")), "")
