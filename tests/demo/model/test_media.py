"""Pictures and files in a request to the stand-in: it takes what OpenAI takes, by both APIs."""

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


def data(media: str, content: bytes) -> str:
    """The address that holds this content."""
    return f"data:{media};base64,{base64.b64encode(content).decode()}"


def image(url: str = data("image/png", PNG), **more: Any) -> dict[str, Any]:
    return {"type": "input_image", "image_url": url, "detail": "auto", **more}


def file(url: str = data("application/pdf", b"%PDF-1.7 x"), name: str = "a.pdf") -> dict[str, Any]:
    return {"type": "input_file", "filename": name, "file_data": url}


def ask(client: OpenAI, *parts: Any, role: str = "user") -> openai.types.responses.Response:
    """Ask the Responses API with such parts."""
    return client.responses.create(**{**ASK, "input": [{"role": role, "content": [*parts]}]})


def by_chat(client: OpenAI, *parts: Any) -> Any:
    """Ask by Chat Completions with such parts."""
    said: Any = {"role": "user", "content": [*parts]}
    return client.chat.completions.create(model="gpt-5", messages=[said])


@pytest.mark.parametrize(
    ("part", "what"),
    [
        (image(data("image/png", b"GIF89a")), "does not represent a valid image"),
        (image(data("image/heic", PNG)), "does not represent a valid image"),
        (image("data:image/png;base64,iVBORw0"), "does not represent a valid image"),
        (image("https://example.com/cat.png"), "does not represent a valid image"),
        (image(data("application/pdf", b"%PDF-1")), "does not represent a valid image"),
        (image(detail="some"), "Invalid value: 'some'"),
        (image(file_name="x"), "Unknown parameter"),
        (file(data("application/pdf", b"PK\x03\x04")), "Expected a base64-encoded PDF"),
        (file(data("image/png", PNG)), "Expected a base64-encoded PDF"),
        (file(name=""), "filename"),
    ],
)
def test_what_is_not_what_it_says_is_refused(client: OpenAI, part: Any, what: str) -> None:
    """A picture or a file that is none, or is given otherwise, is refused at its place."""
    with pytest.raises(openai.BadRequestError, match=what) as caught:
        ask(client, {"type": "input_text", "text": "look"}, part)
    assert "input[0].content[1]" in str(caught.value.param)


def test_only_a_user_shows_anything(client: OpenAI) -> None:
    """A developer's words are text."""
    with pytest.raises(openai.BadRequestError, match="Supported values are: input_text"):
        ask(client, image(), role="developer")


def test_a_chat_with_files_is_one_of_the_responses_api(
    planner: StrictPlanner, client: OpenAI
) -> None:
    """By chat the same parts have other names; they belong to what was said before them, and what
    is said after them is an item of its own.
    """
    planner.script(Turn(text="a cat"), Turn(text="again"))
    head = "Files that Ben (<@U1>) attached, quoted for you to read."
    wrote = "Ben (<@U1>) writes, on Monday, 2026-11-23, at 08:00 UTC:\nwhat is it?"
    parts = [
        {"type": "text", "text": f"earlier\n\n{head}"},
        {"type": "image_url", "image_url": {"url": data("image/png", PNG), "detail": "auto"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": file()["file_data"]}},
        {"type": "text", "text": wrote},
    ]
    assert by_chat(client, *parts).choices[0].message.content == "a cat"
    assert [each["content"] for each in planner.requests[-1]["input"]] == [
        [{"type": "input_text", "text": "earlier"}],
        [{"type": "input_text", "text": head}, image(), file()],
        [{"type": "input_text", "text": wrote}],
    ]
    used = ask(client, image(data("image/png", PNG + bytes(1_000_000)))).usage
    assert used is not None
    assert used.input_tokens < 5_000  # not as many as its letters are
    with pytest.raises(openai.BadRequestError, match="valid image"):
        by_chat(client, {"type": "image_url", "image_url": {"url": "cat.png"}})


def test_a_model_may_lack_sight(planner: StrictPlanner, client: OpenAI) -> None:
    """A model that sees no pictures, or reads no files, refuses those alone."""
    planner.without = {ApiFeature.SIGHT}
    with pytest.raises(openai.BadRequestError, match="image_url is only supported by certain"):
        ask(client, image())
    part = {"type": "image_url", "image_url": {"url": image()["image_url"]}}
    with pytest.raises(openai.BadRequestError, match="image_url is only supported by certain"):
        by_chat(client, part)
    assert ask(client, file())
    planner.without = {ApiFeature.FILES}
    with pytest.raises(openai.BadRequestError, match="file is only supported by certain models"):
        ask(client, file())
    assert ask(client, image())
