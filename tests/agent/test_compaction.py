"""Requests that do not fit, and compaction by the model's server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import openai
import pytest

from bot.agent import prompt
from bot.agent.chat_completions import CHAT_DIALECT
from bot.agent.model_errors import parse_context_window, raise_stream_error
from bot.agent.planner import Planner
from bot.agent.responses import RESPONSES_DIALECT
from bot.agent.turn import ModelRequestTooLongError, PlannerError
from tests.agent.test_planner import Words
from tests.model_stand_in.planner import ApiFeature
from tests.model_stand_in.planner import StrictPlanner as Server

LONG = [{"role": "user", "content": [{"type": "input_text", "text": "words " * 4_000}]}]


@pytest.fixture
def server() -> Iterator[Server]:
    """A model server whose model reads 4,000 tokens."""
    with Server() as server:
        server.context = 4_000
        yield server


def build_planner(server: Server, *dialects: Any) -> Planner:
    """A planner for that server."""
    client = openai.OpenAI(api_key="sk-offline", base_url=server.url)
    return Planner(client, model="gpt-5", dialects=dialects or (RESPONSES_DIALECT,), retries=2)


@pytest.mark.parametrize(("dialect", "window"), [(RESPONSES_DIALECT, 0), (CHAT_DIALECT, 4_000)])
def test_a_request_that_does_not_fit_raises_an_error(
    server: Server, dialect: Any, window: int
) -> None:
    """It is asked once, by either API; the window is known if the server states it."""
    with pytest.raises(ModelRequestTooLongError, match="longer than the model can read") as raised:
        build_planner(server, dialect).take_turn(LONG, [], "Be brief.", Words())
    assert raised.value.window == window
    assert len(server.refused) == 1


def test_a_request_too_long_within_the_stream_raises_the_same() -> None:
    """The server began to answer before it counted tokens."""
    with pytest.raises(ModelRequestTooLongError):
        raise_stream_error(
            {"code": "context_length_exceeded", "message": "Your input is too long."}
        )


@pytest.mark.parametrize(
    ("said", "window"),
    [
        ("This model's maximum context length is 128,000 tokens. However, you", 128_000),
        ("the request exceeds the available context size (4096 tokens), try", 4096),
        ("Requested tokens (5210) exceed context window of 2048", 2048),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        ("{'message': 'the request exceeds the available context size', 'n_ctx': 8192}", 8192),
        ("Your input exceeds the context window of this model.", 0),
    ],
)
def test_the_context_window_is_read_from_refusals(said: str, window: int) -> None:
    """In the words of known servers."""
    assert parse_context_window(said) == window


@pytest.mark.parametrize("is_json", [True, False])
def test_a_refusal_may_be_a_mere_text(is_json: bool) -> None:
    """As LM Studio says that a thread is too long; other texts are quoted, web pages are not."""
    said = "The model is loaded with a context length of only 4096 tokens, which is not enough."
    with pytest.raises(ModelRequestTooLongError) as raised:
        ask_refusing_server(said, is_json)
    assert raised.value.window == 4096
    with pytest.raises(PlannerError, match=r"an error \(400\): No model is loaded\.$"):
        ask_refusing_server("No model is loaded.", is_json)
    with pytest.raises(PlannerError, match=r"an error \(400\)\.$"):
        ask_refusing_server("<html><p>Bad request: context length</p></html>", is_json=False)


def ask_refusing_server(said: str, is_json: bool) -> None:
    """Take a turn at a server that refuses it with this text, or with JSON around it."""
    how = {"json": {"error": said}} if is_json else {"text": said}
    wire = httpx2.MockTransport(lambda _: httpx2.Response(400, **how))
    client = openai.OpenAI(
        api_key="sk-offline",
        base_url="http://model.test",
        http_client=httpx2.Client(transport=wire),
    )
    Planner(client, model="gpt-5", retries=0).take_turn(LONG, [], "Be brief.", Words())


def test_the_server_can_compact_a_transcript(server: Server) -> None:
    """Only it can open the items that it returns. Chat Completions have no such thing; a server
    without it is asked once."""
    server.context = None
    here = build_planner(server)
    made = here.compact_items([*LONG, {"role": "assistant", "content": "Yes."}], "Be brief.")
    assert made is not None
    assert [each["type"] for each in made.items] == ["message", "compaction"]
    assert made.tokens > 4_000
    assert here.compaction_server_id == f"{server.url}/"
    here.take_turn([*made.items, *LONG], [], "Be brief.", Words())
    altered = {**made.items[-1], "encrypted_content": "gAAAAAx"}
    with pytest.raises(Exception, match="could not be verified"):
        here.take_turn([altered, *LONG], [], "Be brief.", Words())

    assert build_planner(server, CHAT_DIALECT).compaction_server_id == ""
    assert build_planner(server, CHAT_DIALECT).compact_items(LONG, "") is None
    server.without = {ApiFeature.COMPACTION}
    server.refused.clear()
    assert [here.compact_items(LONG, "") for _ in range(2)] == [None, None]
    assert len(server.refused) == 1


def test_a_web_page_is_not_taken_for_a_compaction() -> None:
    """A proxy in between may answer with a page of its own."""

    class Page(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<p>Sign in</p>")

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as page:
        thread = threading.Thread(target=page.serve_forever, args=(0.01,))
        thread.start()
        url = f"http://127.0.0.1:{page.server_address[1]}/v1"
        client = openai.OpenAI(api_key="sk-offline", base_url=url)
        try:
            assert Planner(client, model="gpt-5").compact_items(LONG, "") is None
        finally:
            page.shutdown()
            thread.join(30)
            client.close()


def test_the_text_to_summarise_is_cut_to_fit() -> None:
    """An earlier summary is always included, and omitted entries are counted.

    Sealed content is left out, and each line is quoted.
    """
    call = {"type": "function_call", "name": "peek", "arguments": '{"text": "1042"}'}
    items = [
        {"role": "user", "content": "In short: the beginning."},
        *({"role": "assistant", "content": f"answer {n}\n\nEarlier messages"} for n in range(50)),
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAAA"},
        call,
        {"type": "function_call_output", "call_id": "c", "output": "x" * 9_000},
    ]
    item, out = prompt.build_item_to_summarize(items, 4_000)
    text = item["content"][0]["text"]
    head, *lines = text.splitlines()
    assert head == prompt.SUMMARY_SOURCE_HEADING
    assert lines[0] == "> In short: the beginning."
    assert lines[1] == prompt.OLDER_ENTRIES_OMITTED_LINE.format(many=out)
    assert 10 < out < 50
    assert all(line.startswith("> ") for line in lines[2:] if line)
    assert '> The agent called peek: {"text": "1042"}' in lines
    assert "gAAAA" not in text
    assert len(text) < 4_200
    stands = prompt.build_summary_item("So it was.\n\nReally.", out, 13)["content"][0]["text"]
    assert stands.splitlines()[1:] == [lines[1], "> So it was.", "> R …"]
