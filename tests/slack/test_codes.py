"""Every error code in Slack's reference of the methods used: what it means, what comes of it."""

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
from tests.slack.post_office import SUPPORT, PostOffice
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
# answers that are none: a status and no JSON, or an error without a code
NO_ANSWERS: tuple[int | None, ...] = (200, 302, 400, 404, 500, 503, None)
GONE = ("message_not_found", "edit_window_closed", "cant_update_message")


@cache
def reference() -> dict[str, Any]:
    """Slack's reference; {} where it is not on this machine."""
    found: dict[str, Any] = json.loads(REFERENCE.read_text("utf-8")) if REFERENCE.exists() else {}
    return found


@pytest.mark.skipif(not REFERENCE.exists(), reason="Slack's reference is not on this machine")
@pytest.mark.parametrize("method", METHODS)
def test_every_code_of_the_reference_is_listed(method: str) -> None:
    """Once: no code has two meanings, and none is left to chance."""
    for code in reference()[method]["errors"]:
        where = [each for each, codes in LISTED.items() if code in codes]
        assert len(where) == 1 or code == slack_codes.MISSING_SCOPE, (code, where)


def test_no_code_has_two_meanings() -> None:
    """The sets do not overlap."""
    assert sum(len(each) for each in LISTED.values()) == len(set().union(*LISTED.values()))


def refuse(office: PostOffice, method: str, code: str) -> ErrorMeaning:
    """Have the next call of that method answered so; what it means."""
    office.slack.faults.fail(method, code)
    return classify_error_code(code, method=method)


@pytest.mark.parametrize("code", EVERY)
def test_a_post_that_is_answered_so(office: PostOffice, code: str) -> None:
    """A listed no gives it up. Else it is sent once: at the next try, looked for where it may
    stand, and after the token is good again where that was refused.
    """
    found = refuse(office, "chat.postMessage", code)
    row = office.put()
    assert office.send(row) is (found is ErrorMeaning.FINAL)
    now = office.now(row)
    assert office.access.is_refused() is (found is ErrorMeaning.TOKEN)
    if found is ErrorMeaning.FINAL:
        assert (now.status, now.error) == (M.FAILED, code)
        return
    stands = found is ErrorMeaning.UNKNOWN
    assert (now.status, now.error) == (M.SENDING if stands else M.PENDING, code)
    office.clock.at += timedelta(seconds=60)
    assert office.access.recheck_token_if_due() == 0.0
    assert office.send(row) is True
    assert office.now(row).status is M.SENT
    assert ("conversations.history" in office.methods()) is stands


@pytest.mark.parametrize("code", EVERY)
def test_a_drawing_that_is_answered_so(office: PostOffice, code: str) -> None:
    """A card is drawn once Slack lets it be, and its call waits on; only a listed no ends that."""
    made = seed(office.store)
    card = office.card(made)
    office.send(card)
    with office.store.write() as tx:
        set_message(tx, card, status=M.STALE)
    found = refuse(office, "chat.update", code)
    office.send(card)
    if code in GONE:
        assert office.now(card).status is M.PENDING
        return
    if found is ErrorMeaning.FINAL:
        assert (made.call().status, office.now(card).error) == (CallStatus.CANCELLED, code)
        return
    assert office.now(card).status is M.STALE
    assert made.call().status is CallStatus.PENDING
    office.clock.at += timedelta(seconds=60)
    assert office.access.recheck_token_if_due() == 0.0
    assert office.send(card) is True
    assert office.now(card).status is M.SENT


@pytest.mark.parametrize("code", EVERY)
def test_a_direct_message_that_is_answered_so(office: PostOffice, code: str) -> None:
    """The same for the conversation that has to be opened first."""
    found = refuse(office, "conversations.open", code)
    row = office.put(channel="UBEN00001")
    assert office.send(row) is (found is ErrorMeaning.FINAL)
    assert (office.now(row).status is M.FAILED) is (found is ErrorMeaning.FINAL)
    office.clock.at += timedelta(seconds=60)
    assert office.access.recheck_token_if_due() == 0.0


@pytest.mark.long
@pytest.mark.parametrize("code", EVERY)
@pytest.mark.parametrize("method", ["files.getUploadURLExternal", "files.completeUploadExternal"])
def test_an_upload_that_is_answered_so(office: PostOffice, code: str, method: str) -> None:
    """The same for a file."""
    found = refuse(office, method, code)
    made = seed(office.store)
    body = {"name": f"{code} {method}.csv", "title": "Rows", "content": "a"}
    row = office.put("file", body=body, run_id=made.run_id)
    assert office.send(row) is (found is ErrorMeaning.FINAL)
    assert (office.now(row).status is M.FAILED) is (found is ErrorMeaning.FINAL)
    if found is not ErrorMeaning.FINAL:
        office.clock.at += timedelta(seconds=60)
        assert office.access.recheck_token_if_due() == 0.0
        assert office.send(row) is True
        assert office.now(row).status is M.SENT


@pytest.mark.parametrize("status", NO_ANSWERS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_answer_that_is_none(office: PostOffice, status: int | None, when: Any) -> None:
    """Whatever came instead: what was posted is found, what was not is posted, once."""
    if status is not None:
        office.slack.faults.status("chat.postMessage", status, when=when)
    else:
        office.slack.faults.fail("chat.postMessage", "")
    row = office.put()
    assert office.send(row) is False
    assert office.now(row).status is M.SENDING
    office.clock.at += timedelta(seconds=60)
    assert office.send(row) is True
    ts, text = office.now(row).ts, f"words of {row.key}"
    assert office.seen(ts) == [text]
    everything = office.slack.person("ana").everything(SUPPORT)
    assert [each["ts"] for each in everything if each["text"] == text] == [ts]


class _Odd(BaseHTTPRequestHandler):
    """Answers every call with one body."""

    body = b""

    def do_POST(self) -> None:
        """Answer it."""
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
def test_an_answer_that_is_no_answer_of_slacks(office: PostOffice, body: bytes) -> None:
    """However it is odd: the message may stand, and is not given up after any number of tries."""
    server = HTTPServer(("127.0.0.1", 0), type("Odd", (_Odd,), {"body": body}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    right = office.client.base_url
    row = office.put(attempts=40)
    try:
        office.client.base_url = f"http://127.0.0.1:{server.server_port}/"
        assert office.send(row) is False
    finally:
        office.client.base_url = right
        server.shutdown()
        thread.join()
        server.server_close()
    assert office.now(row).status is M.SENDING


@pytest.mark.parametrize("code", ["missing_scope", "thread_not_found", "not_in_channel"])
def test_what_cannot_be_looked_for_is_posted(office: PostOffice, code: str) -> None:
    """A search that Slack refuses says nothing of the post; its own answer does."""
    office.slack.faults.status("chat.postMessage", 500)
    row = office.put()
    assert office.send(row) is False
    office.slack.faults.fail("conversations.history", code)
    assert office.send(row) is True
    assert office.now(row).status is M.SENT


def test_what_slack_does_not_explain_holds_up_nobody_for_ever(office: PostOffice) -> None:
    """It is tried on and on, and after some tries those behind it in the channel go on."""
    odd = office.put(attempts=5)
    office.slack.faults.fail("chat.postMessage", "a_code_of_next_year")
    assert office.send(odd) is False
    assert odd.seq in office.memory.overtakable_message_seqs
    assert office.send(odd) is True
    assert office.now(odd).status is M.SENT
    assert odd.seq not in office.memory.overtakable_message_seqs
