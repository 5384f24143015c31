"""`countersign mcp-proxy`: a host's calls run once people have approved them, and once only."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from bot.config.connection_settings import Transport
from storage.models import Call
from storage.states import CallStatus
from tests.proxy.host import SERVER, Host, hosting, said
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import arrived, open_modal, reject, typed

pytestmark = pytest.mark.long
POLICY = """
[defaults]
approvers = ["UANA00001", "UCLEO0001"]

[[rule]]
name = "reading is free"
tool = "shop_count_lines"
effect = "read"
verdict = "allow"
"""


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


def test_the_servers_tools_are_listed_through(host: Host) -> None:
    """As they are, and two that ask people."""
    listed = host.portal.call(host.client.list_tools)
    names = [each.name for each in listed.tools]
    assert {"add_line", "count_lines", "ask_person", "request_approval"} <= set(names)
    assert listed.tools[0].input_schema["properties"]["text"] == {"title": "Text", "type": "string"}


def test_a_call_runs_once_it_is_approved(host: Host) -> None:
    """The host waits and hears that it does; the record has what came of it."""
    call = host.calls("add_line", text="a pond pump")
    card = host.card("a pond pump")
    assert "Add a line at shop: text a pond pump" in words(card)  # whose tool it is
    assert "Requested by the program “desk”, which runs this once approved" in words(card)
    assert "a pond pump" not in host.lines()
    host.approves("a pond pump")
    result = call.result(30)
    assert (said(result), result.is_error) == ("added a pond pump", False)
    assert host.lines().count("a pond pump") == 1
    assert any("is waiting for approval" in each for each in host.told)
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
    host.told.clear()
    result = host.calls("add_line", text="a slow team").result(30)
    assert result.is_error
    assert len(host.told) < 6, "what waits is looked at now and again"
    assert "it is not asked twice" in said(result)
    again = host.calls("add_line", text="a slow team")
    host.approves("a slow team")
    assert said(again.result(30)) == "added a slow team"
    cards = [m for m in host.harness.person("ana").everything(SUPPORT) if "a slow team" in words(m)]
    assert sum("asks: “Add a line" in words(m) for m in cards) == 1
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
    assert sum("asks: “Add a line" in words(each) for each in cards) == 1
    assert host.lines().count("a patient fern") == 1


def test_a_tool_that_changes_while_people_decide_does_not_run(host: Host) -> None:
    """They approved a call of the one that they were shown: the host hears why, and asks anew."""
    call = host.calls("repaint", shed="the old shed")
    host.card("the old shed")
    reworded = host.calls("reword", words="With a torch.")
    host.approves("With a torch.")
    assert said(reworded.result(30)) == "reworded"
    host.approves("the old shed")
    result = call.result(30)
    assert (result.is_error, "changed its tool repaint" in said(result)) == (True, True)
    assert "the old shed is painted" not in host.lines()
    again = host.calls("repaint", shed="the old shed")
    host.approves("the old shed")
    assert said(again.result(30)) == "painted"
    assert host.lines().count("the old shed is painted") == 1


def asked(host: Host, text: str) -> int:
    """How often people were asked about this."""
    seen = host.harness.person("ana").everything(SUPPORT)
    return sum(text in words(each) and "approve" in action_ids(each) for each in seen)


def test_a_tool_that_changes_while_no_host_waits_is_asked_anew(host: Host) -> None:
    """The call again is one of another tool: what people approved of the old one runs no more."""
    given_up = host.calls("repaint", shed="the far shed")
    host.card("the far shed")
    given_up.cancel()
    reworded = host.calls("reword", words="With acid.")
    host.approves("With acid.")
    assert said(reworded.result(30)) == "reworded"
    host.calls("repaint", shed="the far shed")
    host.harness.slack.wait(lambda: asked(host, "the far shed") == 2, 20)


def test_tools_whose_names_read_alike_are_two(host: Host) -> None:
    """Policy and people read one name and one title: each call is asked by itself all the same."""
    host.calls("shed.open", shed="the near shed")
    host.card("the near shed")
    host.calls("shed_open", shed="the near shed")
    host.harness.slack.wait(lambda: asked(host, "the near shed") == 2, 20)


def test_a_server_that_goes_away_under_a_call(host: Host) -> None:
    """What it did by then nobody knows: the host hears that, and people are asked, not told."""
    with host.another() as other:
        call = other.calls("leave", why="for the sea")
        other.approves("for the sea")
        result = call.result(30)
        assert (result.is_error, "its outcome is unknown" in said(result)) == (True, True)
    [found] = host.harness.all(Call, Call.tool == "shop_leave")
    assert found.status is CallStatus.RUNNING
    host.harness.clock.advance(301)
    host.harness.settle()
    [found] = host.harness.all(Call, Call.tool == "shop_leave")
    assert found.status is CallStatus.UNKNOWN


def test_people_are_asked(host: Host) -> None:
    """An approval of what the agent does by other means, and what it gets is as approved."""
    call = host.calls("request_approval", title="Repaint the shed", details="In red, on Monday")
    host.approves("Repaint the shed")
    assert said(call.result(30)).endswith("nothing else: In red, on Monday")
    wrong = host.calls("request_approval", title="Repaint the shed").result(30)
    assert "does not accept that" in said(wrong)
