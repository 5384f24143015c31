"""Files that people upload: messages of theirs, which they edit and delete."""

from __future__ import annotations

import json
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from slack_sdk import WebClient

from sandbox.tests.harness import events
from sandbox.tests.web_api.test_files import SUPPORT, fetch
from slack_sandbox.server import Sandbox


def test_a_person_can_upload_a_file(sandbox: Sandbox, client: WebClient) -> None:
    """The file is a message of theirs; the app gets an event and can download it."""
    query = f"as=UANA00001&name={quote('bill 1.pdf')}&channel={SUPPORT}&comment=look,%20@bot"
    url = f"{sandbox.url}/sandbox/upload?{query}"
    answer = json.loads(fetch(url, b"%PDF-1")[1])
    (event,) = [each for each in events(sandbox, "message") if each.get("subtype") == "file_share"]
    words = f"look, <@{sandbox.bot_user_id}>"
    assert (event["user"], event["ts"], event["text"]) == ("UANA00001", answer["ts"], words)
    (file,) = event["files"]
    bearer = {"Authorization": f"Bearer {sandbox.bot_token}"}
    assert fetch(file["url_private_download"], **bearer) == (200, b"%PDF-1", "application/pdf")
    assert client.files_info(file=file["id"])["file"]["user"] == "UANA00001"
    for change in ("&channel=C0FINANCE", "&as=UBEN00001&channel=C0FINANCE", "&channel=C0NONE"):
        wrong = f"{sandbox.url}/sandbox/upload?as=UBEN00001&name=x{change}"
        assert json.loads(fetch(wrong, b"x")[1])["ok"] is False
    assert (
        json.loads(fetch(f"{sandbox.url}/sandbox/upload?as=UBEN00001&name=x", b"")[1])["ok"]
        is False
    )
    loose = json.loads(fetch(f"{sandbox.url}/sandbox/upload?as=UBEN00001&name=x.txt", b"abc")[1])
    assert (loose["file"]["size"], "ts" in loose) == (3, False)


def test_a_person_can_share_edit_and_delete_files(sandbox: Sandbox, client: WebClient) -> None:
    """Several files come in one message, whose words change; a file that goes leaves a tombstone,
    and only its owner takes it away.
    """
    ana, ben = sandbox.person("ana"), sandbox.person("ben")
    ts = ana.share("support", "both", {"a.txt": b"one", "b.txt": b"two"})
    ana.edit("support", ts, "the second")
    (message,) = client.conversations_history(channel=SUPPORT)["messages"]
    assert (message["text"], message["subtype"]) == ("the second", "file_share")
    first, second = message["files"]
    assert [first["name"], second["name"], second["size"]] == ["a.txt", "b.txt", 3]
    with pytest.raises(ValueError, match="not a file of ben"):
        ben.delete_file(first["id"])
    ana.delete_file(first["id"])
    (message,) = client.conversations_history(channel=SUPPORT)["messages"]
    assert [each["mode"] for each in message["files"]] == ["tombstone", "hosted"]
    changed = [e for e in events(sandbox, "message") if e.get("subtype") == "message_changed"]
    assert changed[-1]["previous_message"]["files"][0]["id"] == first["id"]
    ana.delete("support", ts)
    assert client.conversations_history(channel=SUPPORT)["messages"] == []


def test_a_file_that_a_browser_would_run_is_only_saved(sandbox: Sandbox) -> None:
    """The answer makes browsers download it."""
    url = f"{sandbox.url}/sandbox/upload?as=UANA00001&name=x.html"
    file = json.loads(fetch(url, b"<script>")[1])["file"]
    with urlopen(file["url_private"] + "?as=UANA00001") as answer:
        assert answer.headers["Content-Disposition"].startswith("attachment")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
