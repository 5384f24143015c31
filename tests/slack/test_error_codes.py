"""Every error code of Slack's reference for the methods used: its meaning and consequence."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from bot import slack_codes
from bot.slack_codes import ErrorMeaning, classify_error_code
from storage.states import CallStatus, MessageStatus
from tests.slack.sender_harness import SUPPORT, SenderHarness
from tests.storage.builders import seed, set_message

M = MessageStatus
REFERENCE = Path(__file__).parents[3] / "shared" / "fixtures" / "slack_methods.json"
METHODS = (
    *("agents.sessions.setStatus", "apps.connections.open", "assistant.threads.setStatus"),
    *("assistant.threads.setSuggestedPrompts", "auth.test", "bots.info", "chat.appendStream"),
    *("chat.delete", "chat.getPermalink", "chat.postEphemeral", "chat.postMessage"),
    *("chat.scheduleMessage", "chat.startStream", "chat.stopStream", "chat.update"),
    *("conversations.create", "conversations.history", "conversations.info"),
    *("conversations.invite", "conversations.list", "conversations.members"),
    *("conversations.open", "conversations.replies", "conversations.setTopic"),
    *("files.completeUploadExternal", "files.getUploadURLExternal", "files.info"),
    *("reactions.add", "reactions.remove", "usergroups.list", "users.conversations"),
    *("users.info", "users.list", "views.open", "views.publish", "views.update"),
)
LISTED = {
    ErrorMeaning.FINAL: slack_codes.PERMANENT_ERROR_CODES,
    ErrorMeaning.PASSING: slack_codes.TEMPORARY_ERROR_CODES,
    ErrorMeaning.TOKEN: slack_codes.TOKEN_ERROR_CODES,
    ErrorMeaning.UNKNOWN: slack_codes.UNKNOWN_OUTCOME_CODES,
}
EVERY = sorted(set().union(*LISTED.values()) | {slack_codes.MISSING_SCOPE, "a_code_of_next_year"})
# no real answer: a status without JSON, or (None) an error without a code
NO_ANSWERS: tuple[int | None, ...] = (200, 302, 400, 404, 500, 503, None)
GONE = ("message_not_found", "edit_window_closed", "cant_update_message")


@cache
def read_reference() -> dict[str, Any]:
    """Slack's reference; {} where it is not on this machine."""
    found: dict[str, Any] = json.loads(REFERENCE.read_text("utf-8")) if REFERENCE.exists() else {}
    return found


@pytest.mark.skipif(not REFERENCE.exists(), reason="Slack's reference is not on this machine")
@pytest.mark.parametrize("method", METHODS)
def test_every_code_of_the_reference_is_listed(method: str) -> None:
    """Exactly once, so that none is left to chance."""
    for code in read_reference()[method]["errors"]:
        where = [each for each, codes in LISTED.items() if code in codes]
        assert len(where) == 1 or code == slack_codes.MISSING_SCOPE, (code, where)


def test_no_error_code_has_two_meanings() -> None:
    """The sets do not overlap."""
    assert sum(len(each) for each in LISTED.values()) == len(set().union(*LISTED.values()))


def refuse(harness: SenderHarness, method: str, code: str) -> ErrorMeaning:
    """Answer the next call of that method with the code; return the code's meaning."""
    harness.slack.faults.fail(method, code)
    return classify_error_code(code, method=method)


@pytest.mark.parametrize("code", EVERY)
def test_each_error_code_of_a_post_has_its_consequence(harness: SenderHarness, code: str) -> None:
    """Only a permanent error gives it up. Else the next try sends it once: after a search if it may
    have been posted, and after a token that was refused is good again."""
    found = refuse(harness, "chat.postMessage", code)
    row = harness.queue()
    assert harness.send(row) is (found is ErrorMeaning.FINAL)
    now = harness.read(row)
    assert harness.access.is_refused() is (found is ErrorMeaning.TOKEN)
    if found is ErrorMeaning.FINAL:
        assert (now.status, now.error) == (M.FAILED, code)
        return
    stands = found is ErrorMeaning.UNKNOWN
    assert (now.status, now.error) == (M.SENDING if stands else M.PENDING, code)
    harness.clock.at += timedelta(seconds=60)
    assert harness.access.recheck_token_if_due() == 0.0
    assert harness.send(row) is True
    assert harness.read(row).status is M.SENT
    assert ("conversations.history" in harness.take_methods()) is stands


@pytest.mark.parametrize("code", EVERY)
def test_each_error_code_of_a_redraw_has_its_consequence(harness: SenderHarness, code: str) -> None:
    """The card is drawn once Slack permits; only a permanent error ends its call's wait."""
    made = seed(harness.store)
    card = harness.queue_card(made)
    harness.send(card)
    with harness.store.write() as tx:
        set_message(tx, card, status=M.STALE)
    found = refuse(harness, "chat.update", code)
    harness.send(card)
    if code in GONE:
        assert harness.read(card).status is M.PENDING
        return
    if found is ErrorMeaning.FINAL:
        assert (made.call().status, harness.read(card).error) == (CallStatus.CANCELLED, code)
        return
    assert harness.read(card).status is M.STALE
    assert made.call().status is CallStatus.PENDING
    harness.clock.at += timedelta(seconds=60)
    assert harness.access.recheck_token_if_due() == 0.0
    assert harness.send(card) is True
    assert harness.read(card).status is M.SENT


@pytest.mark.parametrize("code", EVERY)
def test_each_error_code_of_opening_a_dm_has_its_consequence(
    harness: SenderHarness, code: str
) -> None:
    """The conversation has to be opened first; only a permanent error gives it up."""
    found = refuse(harness, "conversations.open", code)
    row = harness.queue(channel="UBEN00001")
    assert harness.send(row) is (found is ErrorMeaning.FINAL)
    assert (harness.read(row).status is M.FAILED) is (found is ErrorMeaning.FINAL)
    harness.clock.at += timedelta(seconds=60)
    assert harness.access.recheck_token_if_due() == 0.0


@pytest.mark.long
@pytest.mark.parametrize("code", EVERY)
@pytest.mark.parametrize("method", ["files.getUploadURLExternal", "files.completeUploadExternal"])
def test_each_error_code_of_an_upload_has_its_consequence(
    harness: SenderHarness, code: str, method: str
) -> None:
    """Only a permanent error gives the file up; else the next try sends it."""
    found = refuse(harness, method, code)
    made = seed(harness.store)
    body = {"name": f"{code} {method}.csv", "title": "Rows", "content": "a"}
    row = harness.queue("file", body=body, run_id=made.run_id)
    assert harness.send(row) is (found is ErrorMeaning.FINAL)
    assert (harness.read(row).status is M.FAILED) is (found is ErrorMeaning.FINAL)
    if found is not ErrorMeaning.FINAL:
        harness.clock.at += timedelta(seconds=60)
        assert harness.access.recheck_token_if_due() == 0.0
        assert harness.send(row) is True
        assert harness.read(row).status is M.SENT


@pytest.mark.parametrize("status", NO_ANSWERS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_post_without_a_real_answer_is_there_once(
    harness: SenderHarness, status: int | None, when: Any
) -> None:
    """A message that was posted is found; one that was not is posted, once."""
    if status is not None:
        harness.slack.faults.status("chat.postMessage", status, when=when)
    else:
        harness.slack.faults.fail("chat.postMessage", "")
    row = harness.queue()
    assert harness.send(row) is False
    assert harness.read(row).status is M.SENDING
    harness.clock.at += timedelta(seconds=60)
    assert harness.send(row) is True
    ts, text = harness.read(row).ts, f"words of {row.key}"
    assert harness.read_texts(ts) == [text]
    everything = harness.slack.person("ana").everything(SUPPORT)
    assert [each["ts"] for each in everything if each["text"] == text] == [ts]


class _Odd(BaseHTTPRequestHandler):
    """Answers every call with one body."""

    body = b""

    def do_POST(self) -> None:
        """Answer with the body."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'["a"]', b'"a"', b"0", b"1", b"null", b"\xff\xfe", b'{"ok": true}', b"{"]
)
def test_an_answer_that_slack_never_gives_is_no_failure(
    harness: SenderHarness, body: bytes
) -> None:
    """It may have been posted, and is not given up after any number of tries."""
    server = HTTPServer(("127.0.0.1", 0), type("Odd", (_Odd,), {"body": body}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    right = harness.client.base_url
    row = harness.queue(attempts=40)
    try:
        harness.client.base_url = f"http://127.0.0.1:{server.server_port}/"
        assert harness.send(row) is False
    finally:
        harness.client.base_url = right
        server.shutdown()
        thread.join()
        server.server_close()
    assert harness.read(row).status is M.SENDING


@pytest.mark.parametrize("code", ["missing_scope", "thread_not_found", "not_in_channel"])
def test_a_message_is_posted_if_the_search_for_it_is_refused(
    harness: SenderHarness, code: str
) -> None:
    """A search that Slack refuses says nothing about the post."""
    harness.slack.faults.status("chat.postMessage", 500)
    row = harness.queue()
    assert harness.send(row) is False
    harness.slack.faults.fail("conversations.history", code)
    assert harness.send(row) is True
    assert harness.read(row).status is M.SENT


def test_an_unknown_error_does_not_block_the_channel_for_ever(harness: SenderHarness) -> None:
    """It is tried on and on; after some tries those behind it in the channel may overtake it.

    They never do where Slack is down, or asks to wait.
    """
    faults = harness.slack.faults
    for attempts, fail in (
        (4, lambda: faults.fail("chat.postMessage", "a_code_of_next_year")),
        (5, lambda: faults.fail("chat.postMessage", "accesslimited")),
        (5, lambda: faults.status("chat.postMessage", 503)),
    ):
        fail()
        assert harness.send(harness.queue(attempts=attempts)) is False
    assert not harness.memory.overtakable_message_seqs
    odd = harness.queue(attempts=5)
    harness.slack.faults.fail("chat.postMessage", "a_code_of_next_year")
    assert harness.send(odd) is False
    assert odd.seq in harness.memory.overtakable_message_seqs
    assert harness.send(odd) is True
    assert harness.read(odd).status is M.SENT
    assert odd.seq not in harness.memory.overtakable_message_seqs
