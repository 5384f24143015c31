"""files.*: uploads as slack_sdk does them, sharing, download, listing, deletion, limits."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from slack_sdk import WebClient

from sandbox.tests.builders import Json
from sandbox.tests.harness import events, second_client
from sandbox.tests.recordings import fixture
from sandbox.tests.refusals import refused
from slack_sandbox.server import Sandbox
from slack_sandbox.web_api import file_store

SUPPORT = "C0SUPPORT"


def fetch(
    url: str, data: bytes | None = None, method: str | None = None, **headers: str
) -> tuple[int, bytes, str]:
    """Status, body and content type of one HTTP request."""
    try:
        with urlopen(Request(url, data, headers, method=method), timeout=5) as answer:
            return answer.status, answer.read(), answer.headers["Content-Type"]
    except HTTPError as error:
        return error.code, error.read(), error.headers["Content-Type"]


def upload(client: WebClient, content: str = "a,b\n1,2\n", **more: Any) -> Json:
    """One file, uploaded with slack_sdk's own helper."""
    found: Json = client.files_upload_v2(**{"filename": "rows.csv", "content": content, **more})[
        "file"
    ]
    return found


def test_files_upload_v2_posts_one_message_in_the_thread(
    sandbox: Sandbox, client: WebClient
) -> None:
    """files_upload_v2 leads to one message in the thread, with file and comment."""
    root = sandbox.person("ana").say("support", "rows, please")
    file = upload(
        client, title="Rows", channel=SUPPORT, thread_ts=root, initial_comment="Here, <@UBEN00001>"
    )
    (_, shared) = client.conversations_replies(channel=SUPPORT, ts=root)["messages"]
    assert (shared["subtype"], shared["text"], shared["user"]) == (
        "file_share",
        "Here, <@UBEN00001>",
        sandbox.bot_user_id,
    )
    (shown,) = shared["files"]
    assert (shown["id"], shown["name"], shown["title"], shown["size"]) == (
        file["id"],
        "rows.csv",
        "Rows",
        8,
    )
    assert (shown["mimetype"], shown["filetype"], shown["preview"], shown["lines"]) == (
        "text/csv",
        "csv",
        "a,b\n1,2\n",
        2,
    )
    assert [note["text"] for note in sandbox.person("ben").notifications()] == [
        "Here, <@UBEN00001>"
    ]
    assert [event["file_id"] for event in events(sandbox, "file_shared")] == [file["id"]]
    told = [event for event in events(sandbox, "message") if event.get("subtype") == "file_share"]
    assert told[0]["files"][0]["id"] == file["id"]


def test_a_file_object_has_slacks_keys(client: WebClient) -> None:
    """It has no key that Slack's file objects lack."""
    recorded = fixture("slack/MessageFileSharePayload.json")["event"]["files"][0]
    assert set(upload(client, channel=SUPPORT)) - set(recorded) == set()


def test_several_files_are_one_message_in_each_channel(sandbox: Sandbox, client: WebClient) -> None:
    """files.info names the channels."""
    files = [{"filename": f"{n}.txt", "content": n, "title": n} for n in ("one", "two")]
    answer = client.files_upload_v2(file_uploads=files, channels=[SUPPORT, "C0FINANCE"])
    for channel in (SUPPORT, "C0FINANCE"):
        (message,) = client.conversations_history(channel=channel)["messages"]
        assert [each["title"] for each in message["files"]] == ["one", "two"]
    info = client.files_info(file=answer["files"][0]["id"])
    assert (info["file"]["channels"], info["file"]["groups"], info["content"]) == (
        [SUPPORT],
        ["C0FINANCE"],
        "one",
    )
    assert (list(info["file"]["shares"]["public"]), list(info["file"]["shares"]["private"])) == (
        [SUPPORT],
        ["C0FINANCE"],
    )


def test_only_who_sees_a_file_gets_its_bytes(sandbox: Sandbox, client: WebClient) -> None:
    """The bytes come with the bot's token, or to a person who sees the file.

    Others get none of them.
    """
    data = bytes(range(256)) * 300
    url = upload(client, file=data, content=None, filename="a b.png", channel="C0FINANCE")[
        "url_private"
    ]
    bearer = {"Authorization": f"Bearer {sandbox.bot_token}"}
    assert fetch(url, **bearer) == (200, data, "image/png")
    assert fetch(url + "?as=UANA00001")[:2] == (200, data)
    assert fetch(url + "?as=UBEN00001")[0] == 403
    assert fetch(url, Authorization="Bearer xoxb-wrong")[0] == 403
    other = second_client(sandbox)
    assert fetch(url, Authorization=f"Bearer {other.token}")[0] == 403
    status, body, kind = fetch(url)
    assert (status, b"Sign in" in body, kind) == (200, True, "text/html; charset=utf-8")
    sandbox.world.app.manifest["oauth_config"]["scopes"]["bot"].remove("files:read")
    assert fetch(url, **bearer) == (status, body, kind)


def test_a_file_is_private_until_it_is_shared(sandbox: Sandbox, client: WebClient) -> None:
    """A file that was shared nowhere is seen by its owner alone."""
    file = upload(client)
    assert client.files_info(file=file["id"])["file"]["shares"] == {}
    second = second_client(sandbox, "support")
    assert refused(second, "files.info", file=file["id"]) == "file_not_found"
    assert fetch(file["url_private"] + "?as=UANA00001")[0] == 403


def test_an_upload_address_takes_the_announced_bytes_once(
    sandbox: Sandbox, client: WebClient
) -> None:
    """They may come in any documented way.

    Raw or as a form, by POST or PUT.
    """

    def address(length: int = 3) -> tuple[str, str]:
        answer = client.files_getUploadURLExternal(filename="x.txt", length=length)
        return answer["upload_url"], answer["file_id"]

    url, file = address()
    assert fetch(url, b"abcd")[0] == fetch(url, b"ab")[0] == 400
    assert fetch(url, b"abc", "PUT")[:2] == (200, b"OK - 3")
    assert fetch(url, b"abc")[0] == 404
    client.files_completeUploadExternal(files=[{"id": file}])
    form = (
        b'--x\r\nContent-Disposition: form-data; name="f"; filename="x.txt"\r\n\r\nabc\r\n--x--\r\n'
    )
    url, file = address()
    assert fetch(url, form, **{"Content-Type": "multipart/form-data; boundary=x"})[:2] == (
        200,
        b"OK - 3",
    )
    assert client.files_completeUploadExternal(files=[{"id": file}])["files"][0]["title"] == "x.txt"
    _, never = address()
    for wrong in (never, file, "F0NONE"):
        code = refused(client, "files.completeUploadExternal", files=json.dumps([{"id": wrong}]))
        assert code == "file_not_found", "not uploaded, completed before, or unknown"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"channel_id": "C0NONE"}, "channel_not_found"),
        ({"channel_id": "C0RANDOM"}, "not_in_channel"),
        ({"channels": ",".join([SUPPORT] * 101)}, "channels_limit_exceeded"),
        ({"files": "nonsense"}, "invalid_arguments"),
        ({"files": "[]"}, "invalid_arguments"),
        ({"channel_id": SUPPORT, "thread_ts": "then"}, "invalid_arguments"),
        ({"channel_id": SUPPORT, "blocks": '[{"type": "x"}]'}, "invalid_blocks"),
    ],
)
def test_a_refused_completion_shares_nothing(client: WebClient, changes: Json, error: str) -> None:
    """A refused completion shares nothing, and the file can still be completed afterwards."""
    answer = client.files_getUploadURLExternal(filename="x.txt", length=3)
    fetch(answer["upload_url"], b"abc")
    files = json.dumps([{"id": answer["file_id"]}])
    assert refused(client, "files.completeUploadExternal", **({"files": files} | changes)) == error
    assert client.conversations_history(channel=SUPPORT)["messages"] == []
    client.files_completeUploadExternal(files=[{"id": answer["file_id"]}], channel_id=SUPPORT)


def test_an_archived_channel_takes_no_files(sandbox: Sandbox, client: WebClient) -> None:
    """Sharing a file in an archived channel is refused."""
    sandbox.archive("support")
    files = json.dumps([{"id": "F1"}])
    code = refused(client, "files.completeUploadExternal", files=files, channel_id=SUPPORT)
    assert code == "posting_to_channel_denied"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"length": 0}, "invalid_arguments"),
        ({"length": "many"}, "invalid_arguments"),
        ({"length": file_store.FILE_LIMIT + 1}, "file_upload_size_restricted"),
        ({"length": file_store.STORE_LIMIT + 1}, "storage_limit_reached"),
        ({"alt_txt": "x" * 1001}, "alt_txt_too_large"),
        ({"length": file_store.SNIPPET_LIMIT + 1, "snippet_type": "python"}, "snippet_too_large"),
    ],
)
def test_upload_limits_are_kept_when_asked_for(
    client: WebClient, changes: Json, error: str
) -> None:
    """Slack's limits hold when the upload address is requested."""
    assert (
        refused(
            client, "files.getUploadURLExternal", **({"filename": "x.txt", "length": 3} | changes)
        )
        == error
    )


def test_files_list_filters_and_pages(sandbox: Sandbox, client: WebClient) -> None:
    """files.list filters by channel, user, kind and time, in numbered pages, latest first."""
    first = upload(client, channel=SUPPORT)
    sandbox.clock.advance(100)
    second = upload(client, filename="p.png", channel="C0FINANCE")
    third = upload(client, snippet_type="python", filename="x.py", channel=SUPPORT)

    def ids(**arguments: Any) -> list[str]:
        return [each["id"] for each in client.files_list(**arguments)["files"]]

    assert ids() == [third["id"], second["id"], first["id"]]
    assert ids(channel=SUPPORT) == [third["id"], first["id"]]
    assert (ids(types="images"), ids(types="snippets")) == ([second["id"]], [third["id"]])
    assert ids(ts_to=str(first["created"] + 50)) == [first["id"]]
    assert (ids(user=sandbox.bot_user_id, count=2, page=2), ids(user="UANA00001")) == (
        [first["id"]],
        [],
    )
    assert client.files_list(count=2)["paging"] == {"count": 2, "total": 3, "page": 1, "pages": 2}
    assert refused(client, "files.list", types="films") == "unknown_type"
    assert refused(client, "files.list", user="UNOBODY") == "user_not_found"
    for arguments in ({"count": 0}, {"page": 0}):
        assert refused(client, "files.list", **arguments) == "invalid_arguments"


def test_a_deleted_file_leaves_a_tombstone(sandbox: Sandbox, client: WebClient) -> None:
    """Apps get an event, and the file is found nowhere else.

    Only its owner deletes it.
    """
    file = upload(client, channel=SUPPORT)
    second = second_client(sandbox, "support")
    assert refused(second, "files.delete", file=file["id"]) == "cant_delete_file"
    client.files_delete(file=file["id"])
    (message,) = client.conversations_history(channel=SUPPORT)["messages"]
    assert message["files"] == [{"id": file["id"], "mode": "tombstone"}]
    assert refused(client, "files.info", file=file["id"]) == "file_deleted"
    assert refused(client, "files.delete", file=file["id"]) == "file_deleted"
    assert refused(client, "files.delete", file="F0NONE") == "file_not_found"
    assert client.files_list()["files"] == []
    assert fetch(file["url_private"] + "?as=UANA00001")[0] == 404
    assert events(sandbox, "file_deleted")[0]["file_id"] == file["id"]
