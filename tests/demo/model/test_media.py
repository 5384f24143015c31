"""Pictures and files in requests: the stand-in accepts what OpenAI accepts, in both APIs."""

from __future__ import annotations

import base64
from typing import Any

import openai
import pytest
from openai import OpenAI

from bot.demo.model_server import Turn
from tests.demo.model.samples import ASK
from tests.model_stand_in.planner import ApiFeature, StrictPlanner

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


def build_data_url(media: str, content: bytes) -> str:
    """The URL that holds this content."""
    return f"data:{media};base64,{base64.b64encode(content).decode()}"


def build_image(url: str = build_data_url("image/png", PNG), **more: Any) -> dict[str, Any]:
    return {"type": "input_image", "image_url": url, "detail": "auto", **more}


def file(
    url: str = build_data_url("application/pdf", b"%PDF-1.7 x"), name: str = "a.pdf"
) -> dict[str, Any]:
    return {"type": "input_file", "filename": name, "file_data": url}


def ask(client: OpenAI, *parts: Any, role: str = "user") -> openai.types.responses.Response:
    """Ask the Responses API with such parts."""
    return client.responses.create(**{**ASK, "input": [{"role": role, "content": [*parts]}]})


def ask_by_chat(client: OpenAI, *parts: Any) -> Any:
    """Ask Chat Completions with such parts."""
    said: Any = {"role": "user", "content": [*parts]}
    return client.chat.completions.create(model="gpt-5", messages=[said])


@pytest.mark.parametrize(
    ("part", "what"),
    [
        (build_image(build_data_url("image/png", b"GIF89a")), "does not represent a valid image"),
        (build_image(build_data_url("image/heic", PNG)), "does not represent a valid image"),
        (build_image("data:image/png;base64,iVBORw0"), "does not represent a valid image"),
        (build_image("https://example.com/cat.png"), "does not represent a valid image"),
        (
            build_image(build_data_url("application/pdf", b"%PDF-1")),
            "does not represent a valid image",
        ),
        (build_image(detail="some"), "Invalid value: 'some'"),
        (build_image(file_name="x"), "Unknown parameter"),
        (file(build_data_url("application/pdf", b"PK\x03\x04")), "Expected a base64-encoded PDF"),
        (file(build_data_url("image/png", PNG)), "Expected a base64-encoded PDF"),
        (file(name=""), "filename"),
    ],
)
def test_a_wrong_picture_or_file_is_refused(client: OpenAI, part: Any, what: str) -> None:
    """The error names its place."""
    with pytest.raises(openai.BadRequestError, match=what) as caught:
        ask(client, {"type": "input_text", "text": "look"}, part)
    assert "input[0].content[1]" in str(caught.value.param)


def test_only_users_may_send_pictures(client: OpenAI) -> None:
    """A developer's message has only text."""
    with pytest.raises(openai.BadRequestError, match="Supported values are: input_text"):
        ask(client, build_image(), role="developer")


def test_a_chat_with_files_is_kept_as_responses_items(
    planner: StrictPlanner, client: OpenAI
) -> None:
    """Files belong to the text before them; text after them is an item of its own."""
    planner.script(Turn(text="a cat"), Turn(text="again"))
    head = "Files that Ben (<@U1>) attached, quoted for you to read."
    wrote = "Ben (<@U1>) writes, on Monday, 2026-11-23, at 08:00 UTC:\nwhat is it?"
    parts = [
        {"type": "text", "text": f"earlier\n\n{head}"},
        {
            "type": "image_url",
            "image_url": {"url": build_data_url("image/png", PNG), "detail": "auto"},
        },
        {"type": "file", "file": {"filename": "a.pdf", "file_data": file()["file_data"]}},
        {"type": "text", "text": wrote},
    ]
    assert ask_by_chat(client, *parts).choices[0].message.content == "a cat"
    assert [each["content"] for each in planner.requests[-1]["input"]] == [
        [{"type": "input_text", "text": "earlier"}],
        [{"type": "input_text", "text": head}, build_image(), file()],
        [{"type": "input_text", "text": wrote}],
    ]
    used = ask(client, build_image(build_data_url("image/png", PNG + bytes(1_000_000)))).usage
    assert used is not None
    assert used.input_tokens < 5_000  # not a token for every few letters
    with pytest.raises(openai.BadRequestError, match="valid image"):
        ask_by_chat(client, {"type": "image_url", "image_url": {"url": "cat.png"}})


def test_a_model_may_lack_pictures_or_files(planner: StrictPlanner, client: OpenAI) -> None:
    """It refuses those, and nothing else."""
    planner.without = {ApiFeature.SIGHT}
    with pytest.raises(openai.BadRequestError, match="image_url is only supported by certain"):
        ask(client, build_image())
    part = {"type": "image_url", "image_url": {"url": build_image()["image_url"]}}
    with pytest.raises(openai.BadRequestError, match="image_url is only supported by certain"):
        ask_by_chat(client, part)
    assert ask(client, file())
    planner.without = {ApiFeature.FILES}
    with pytest.raises(openai.BadRequestError, match="file is only supported by certain models"):
        ask(client, file())
    assert ask(client, build_image())
