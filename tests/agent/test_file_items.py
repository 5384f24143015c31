"""Files for the model: their type, how they are shown, where they are in a transcript."""

from __future__ import annotations

import base64
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import given as any_of
from hypothesis import strategies as st

from bot.agent import file_items
from bot.agent.chat_completions import build_chat_messages
from bot.agent.file_items import PDF, TEXT, EncodedFile, recognise_content
from bot.agent.model_errors import TRANSIENT_ERRORS, build_planner_error, can_retry
from bot.agent.turn import ModelRequestRefusedError
from tests.model_stand_in.chat_checks import check_chat_request
from tests.model_stand_in.responses_checks import check_responses_request

PNG = b"\x89PNG\r\n\x1a\n rest"


@pytest.mark.parametrize(
    ("data", "media"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0 rest", "image/jpeg"),
        (b"GIF89a rest", "image/gif"),
        (b"RIFF\n\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"%PDF-1.4\n", PDF),
        (b"a,b\r\n1,2\r\n", TEXT),
        ("Größe\tä".encode(), TEXT),
        ("\ufeffmarked".encode(), TEXT),
        ("wide".encode("utf-16"), TEXT),
        (b"", ""),
        (b"PK\x03\x04 a zip or a Word document", ""),
        (b"\x00\x01\x02", ""),
        (b"almost a text\x00", ""),
        (b"\xff\xfe\x00\xd8", ""),  # an incomplete character
        ("Größe".encode("latin-1"), ""),
        (b"RIFF\n\x00\x00\x00WAVEfmt ", ""),
    ],
)
def test_a_files_type_is_found_from_its_bytes(data: bytes, media: str) -> None:
    """Neither its name nor its announced type counts; unreadable bytes have no type."""
    content = recognise_content(data, said_to_be_text=False)
    assert (content.media_type if content else "") == media


def test_an_unknown_encoding_is_guessed_and_labelled() -> None:
    """It is read as spreadsheets write it, and the label says so.

    A picture announced as text stays a picture.
    """
    content = recognise_content("Größe;5 €".encode("cp1252"), said_to_be_text=True)
    assert content is not None
    assert (content.text, content.is_encoding_guessed) == ("Größe;5 €", True)
    assert "letters may be wrong" in file_items.file_label("a.csv", 9, content)
    picture = recognise_content(PNG, said_to_be_text=True)
    assert picture is not None
    assert picture.is_picture
    assert recognise_content(b"\x00\xff\x00", said_to_be_text=True) is None


@any_of(st.text())
def test_every_line_of_a_files_text_is_quoted(text: str) -> None:
    """Whatever characters end lines in it."""
    assert all(line.startswith("> ") for line in file_items.quote_lines(text).splitlines())


def test_a_long_text_is_cut_with_a_note() -> None:
    """The number of omitted characters is stated."""
    kept = file_items.cut_file_text("x" * (file_items.MAX_FILE_TEXT + 7))
    assert kept == "x" * file_items.MAX_FILE_TEXT + "\n[… 7 more characters were left out]"
    assert file_items.cut_file_text("short") == "short"


@pytest.mark.parametrize(
    ("status", "said", "refused"),
    [
        (400, "Invalid content type. image_url is only supported by certain models.", True),
        (400, "At most 0 image(s) may be provided in one prompt.", True),
        (413, "Payload too large", True),
        (500, "image input is not supported - hint: you may need to provide the mmproj", True),
        (500, "this model does not support image input", True),
        (500, "15 validation errors:\n  {'type': 'literal_error', 'loc': ('body', …", True),
        (500, 'can only concatenate str (not "list") to str', True),
        (500, "The server had an error while processing your request.", False),
        (503, "The model is overloaded.", False),
        (429, "Rate limit reached.", False),
        (401, "Incorrect API key provided.", False),
    ],
)
def test_refusals_of_pictures_and_files_are_recognised(
    status: int, said: str, refused: bool
) -> None:
    """However it is worded; the same is not asked again. Temporary errors are tried again."""
    response = httpx2.Response(status, request=httpx2.Request("POST", "http://model.test/v1"))
    make = openai.OpenAI(api_key="sk-x", base_url="http://model.test/v1")._make_status_error
    error = make(said, body={"message": said}, response=response)
    assert isinstance(build_planner_error(error, "gpt-5"), ModelRequestRefusedError) is refused
    if refused:
        assert not (isinstance(error, TRANSIENT_ERRORS) and can_retry(error))


def build_item(*kinds: bytes) -> dict[str, Any]:
    """An item with a reference for each of these files, numbered as ids."""
    parts = []
    for number, data in enumerate(kinds):
        content = recognise_content(data, said_to_be_text=False)
        assert content is not None
        parts += [
            file_items.build_text_part(f"file {number}:"),
            file_items.build_file_reference(str(number), "a.b", content),
        ]
    return file_items.build_files_item("Files that Ben (<@U1>) posted, quoted.", parts)


def test_references_are_replaced_by_files_for_both_apis() -> None:
    """A withheld or deleted file becomes words. What people and models wrote stays as it is."""
    said = {"role": "user", "content": [{"type": "input_text", "text": "attached:0"}]}
    told = {"role": "assistant", "content": [{"type": "output_text", "text": "attached:1"}]}
    transcript = [build_item(PNG, b"%PDF-1.4", b"a\nb", PNG, PNG), told, said]
    assert file_items.list_referenced_file_ids(transcript) == ["0", "1", "2", "3", "4"]
    files = {
        "0": EncodedFile("image/png", base64.b64encode(PNG).decode()),
        "1": EncodedFile(PDF, base64.b64encode(b"%PDF-1.4").decode()),
        "2": EncodedFile(TEXT, "a\nb"),
        "3": EncodedFile("image/png", "", replacement_text=file_items.REFUSED_FILE_TEXT),
    }
    filled = file_items.replace_references_with_files(transcript, files)
    assert filled[1:] == [told, said]
    shown = filled[0]["content"][2::2]
    assert [each["type"] for each in shown[:2]] == ["input_image", "input_file"]
    assert [each["text"] for each in shown[2:]] == [
        "> a\n> b",
        file_items.REFUSED_FILE_TEXT,
        file_items.DELETED_FILE_TEXT,
    ]
    assert file_items.list_referenced_file_ids(filled) == []
    check_responses_request({"model": "gpt-5", "input": filled})
    chat = build_chat_messages("Be brief.", filled)
    check_chat_request({"model": "gpt-5", "messages": chat})
    kinds = [part["type"] for part in chat[1]["content"]]
    assert kinds == ["text", "image_url", "text", "file", "text"]
    assert chat[1]["content"][-1]["text"].startswith("file 2:\n\n> a\n> b\n\nfile 3:")
