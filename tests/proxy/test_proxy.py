"""`countersign mcp-proxy`: a host's calls run after approval, and once only."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from bot.config.connection_settings import Transport
from storage.models import Call
from storage.states import CallStatus
from tests.proxy.host import SERVER, Host, get_text, run_host
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
    """A bot over HTTP, and a host whose proxy stands before a server; for both generations of the
    protocol.
    """
    folder = tmp_path_factory.mktemp("proxy")
    harness = Harness(folder, FakeTools().tools, POLICY, Transport.HTTP)
    server, book = folder / "server.py", folder / "book.txt"
    server.write_text(SERVER)
    command = [sys.executable, str(server), str(book)]
    with run_host(
        harness, "desk", command, book, request.param, "--trust-hints", "--hold", "6"
    ) as made:
        yield made
    harness.close()


def test_the_proxy_lists_the_servers_tools(host: Host) -> None:
    """Unchanged, with two more that ask people."""
    listed = host.portal.call(host.client.list_tools)
    names = [each.name for each in listed.tools]
    assert {"add_line", "count_lines", "ask_person", "request_approval"} <= set(names)
    assert listed.tools[0].input_schema["properties"]["text"] == {"title": "Text", "type": "string"}


def test_a_call_runs_once_it_is_approved(host: Host) -> None:
    """The host is told that it waits, and the record has the result."""
    call = host.start_call("add_line", text="a pond pump")
    card = host.wait_for_card("a pond pump")
    assert "Add a line at shop: text a pond pump" in words(card)  # the prefix is named
    assert "Requested by the program “desk”, which runs this once approved" in words(card)
    assert "a pond pump" not in host.read_book()
    host.approve("a pond pump")
    result = call.result(30)
    assert (get_text(result), result.is_error) == ("added a pond pump", False)
    assert host.read_book().count("a pond pump") == 1
    assert any("is waiting for approval" in each for each in host.progress)
    assert host.progress[-1] == "add_line is at 1 of 2 · dips the pen"
    arrived(host.harness)
    host.harness.settle()
    thread = card.get("thread_ts", card["ts"])
    assert "Done: Add a line at shop: text a pond pump" in str(host.harness.thread(SUPPORT, thread))


def test_a_call_that_policy_allows_asks_nobody(host: Host) -> None:
    """The server's hints are trusted, so reading needs no card."""
    result = host.start_call("count_lines").result(30)
    assert get_text(result) == str(len(host.read_book()))


def test_a_call_runs_with_the_edited_arguments(host: Host) -> None:
    """Ana changes the text, Cleo approves; the server gets the new text."""
    call = host.start_call("add_line", text="a red bench")
    card = host.wait_for_card("a red bench")
    open_modal(host.harness, "ana", SUPPORT, card, "edit")
    host.harness.person("ana").submit(typed(text="a green bench"))
    arrived(host.harness)
    card = host.wait_for_card("a green bench")
    host.harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    assert get_text(call.result(30)) == "added a green bench"
    assert "a red bench" not in host.read_book()


def test_rejected_and_failed_calls_are_tool_errors(host: Host) -> None:
    """The host gets the reason."""
    call = host.start_call("add_line", text="a bad idea")
    reject(host.harness, "ana", SUPPORT, host.wait_for_card("a bad idea"), "not in this book")
    result = call.result(30)
    assert result.is_error
    assert "not in this book" in get_text(result)
    call = host.start_call("add_line", text="boom")
    host.approve("boom")
    result = call.result(30)
    assert result.is_error
    assert "Error executing tool add_line" in get_text(result)
    assert "boom" not in host.read_book()


def test_the_same_call_again_waits_for_the_same_request(host: Host) -> None:
    """A host that was told to come back asks nobody twice. Once done, the same is a new call."""
    host.progress.clear()
    result = host.start_call("add_line", text="a slow team").result(30)
    assert result.is_error
    assert len(host.progress) < 6, "what waits is looked at now and again"
    assert "it is not asked twice" in get_text(result)
    again = host.start_call("add_line", text="a slow team")
    host.approve("a slow team")
    assert get_text(again.result(30)) == "added a slow team"
    cards = [m for m in host.harness.person("ana").everything(SUPPORT) if "a slow team" in words(m)]
    assert sum("asks: “Add a line" in words(m) for m in cards) == 1
    third = host.start_call("add_line", text="a slow team")
    assert "the same was done already for this program" in words(host.wait_for_card("a slow team"))
    assert host.read_book().count("a slow team") == 1
    host.approve("a slow team")
    third.result(30)


def test_a_call_given_up_runs_only_if_it_is_made_again(host: Host) -> None:
    """People are still asked, but nothing runs for nobody.

    The same call again is not asked twice.
    """
    given_up = host.start_call("add_line", text="a shy robin")
    host.wait_for_card("a shy robin")
    given_up.cancel()
    host.approve("a shy robin")
    arrived(host.harness)
    assert "a shy robin" not in host.read_book()
    again = host.start_call("add_line", text="a shy robin")
    assert get_text(again.result(30)) == "added a shy robin"
    assert host.read_book().count("a shy robin") == 1


def test_a_restarted_proxy_waits_for_the_same_request(host: Host) -> None:
    """The same call goes on with the existing request, and runs once."""
    with host.start_another() as first:
        first.start_call("add_line", text="a patient fern")
        host.wait_for_card("a patient fern")
    with host.start_another() as second:
        call = second.start_call("add_line", text="a patient fern")
        host.harness.slack.wait(lambda: second.progress, 20)
        host.approve("a patient fern")
        assert get_text(call.result(30)) == "added a patient fern"
    seen = host.harness.person("ana").everything(SUPPORT)
    cards = [each for each in seen if "a patient fern" in words(each)]
    assert sum("asks: “Add a line" in words(each) for each in cards) == 1
    assert host.read_book().count("a patient fern") == 1


def test_a_tool_that_changes_while_people_decide_does_not_run(host: Host) -> None:
    """They approved the tool as it was shown. The host gets the reason, and asks again."""
    call = host.start_call("repaint", shed="the old shed")
    host.wait_for_card("the old shed")
    reworded = host.start_call("reword", words="With a torch.")
    host.approve("With a torch.")
    assert get_text(reworded.result(30)) == "reworded"
    host.approve("the old shed")
    result = call.result(30)
    assert (result.is_error, "changed its tool repaint" in get_text(result)) == (True, True)
    assert "the old shed is painted" not in host.read_book()
    again = host.start_call("repaint", shed="the old shed")
    host.approve("the old shed")
    assert get_text(again.result(30)) == "painted"
    assert host.read_book().count("the old shed is painted") == 1


def count_cards(host: Host, text: str) -> int:
    """How many cards with buttons have this text."""
    seen = host.harness.person("ana").everything(SUPPORT)
    return sum(text in words(each) and "approve" in action_ids(each) for each in seen)


def test_a_tool_that_changed_meanwhile_is_asked_again(host: Host) -> None:
    """An approval of the old tool runs nothing."""
    given_up = host.start_call("repaint", shed="the far shed")
    host.wait_for_card("the far shed")
    given_up.cancel()
    reworded = host.start_call("reword", words="With acid.")
    host.approve("With acid.")
    assert get_text(reworded.result(30)) == "reworded"
    host.start_call("repaint", shed="the far shed")
    host.harness.slack.wait(lambda: count_cards(host, "the far shed") == 2, 20)


def test_tools_with_similar_names_are_asked_separately(host: Host) -> None:
    """Policy and people see the same name and title, and each call is asked by itself."""
    host.start_call("shed.open", shed="the near shed")
    host.wait_for_card("the near shed")
    host.start_call("shed_open", shed="the near shed")
    host.harness.slack.wait(lambda: count_cards(host, "the near shed") == 2, 20)


def test_a_call_whose_server_ends_has_an_unknown_outcome(host: Host) -> None:
    """The host is told so, and people are asked what happened."""
    with host.start_another() as other:
        call = other.start_call("leave", why="for the sea")
        other.approve("for the sea")
        result = call.result(30)
        assert (result.is_error, "its outcome is unknown" in get_text(result)) == (True, True)
    [found] = host.harness.all(Call, Call.tool == "shop_leave")
    assert found.status is CallStatus.RUNNING
    host.harness.clock.advance(301)
    host.harness.settle()
    [found] = host.harness.all(Call, Call.tool == "shop_leave")
    assert found.status is CallStatus.UNKNOWN


def test_a_host_can_request_approval_of_other_work(host: Host) -> None:
    """For work that the agent does by other means; it gets the text as approved."""
    call = host.start_call(
        "request_approval", title="Repaint the shed", details="In red, on Monday"
    )
    host.approve("Repaint the shed")
    assert get_text(call.result(30)).endswith("nothing else: In red, on Monday")
    wrong = host.start_call("request_approval", title="Repaint the shed").result(30)
    assert "does not accept that" in get_text(wrong)
