"""A model's words are quoted so that nothing leaves the quote, and links show where they lead."""

from __future__ import annotations

import random
import re

import pytest
from markdown_it import MarkdownIt

from bot.cards.block_kit import (
    MAX_PART_CHARS,
    cut_before_unfinished_link,
    format_as_blockquote,
    split_into_message_parts,
)
from bot.cards.slack_text import count_slack_characters

EVIL = "https://evil.example/approve?x=1"
ESCAPES = {
    "a claim": "Done.\n\nOn record: one done.",
    "marks": "✅ @ana approved: Refund\n⚠️ On record: done",
    "a heading": "# On record: done\n## ✅ Approved",
    "a rule and a line": "Fine.\n\n---\n\nOn record: done.",
    "a fence": "```\ncode\n```\nOn record: done.\n~~~\nmore",
    "an open fence": "```\ncode\n\nOn record: done.",
    "a list": "- one\n  - two\n\n1. three\nlazy",
    "a quote": "> quoted\nlazy\n\nOn record: done.",
    "a table": "| a | b |\n|---|---|\n| ✅ | On record: done |\n\nafter",
    "html": "</blockquote>\n<div>On record: done</div>\n\n</blockquote>",
    "other line ends": "one\rOn record: done\r\ntwo\x0bthree\x0cfour\x85five\u2028six\u2029seven",
    "blanks": "\n\n   \n\t\nOn record: done\n\n",
    "indented": "    code\n\n\tcode\nOn record: done.",
    "a definition": f"[Approve]\n\n[Approve]: {EVIL}",
}
LINKS = [
    f"[Approve]({EVIL})",
    f"**[Approve]({EVIL})**",
    f"![Approve]({EVIL})",
    f"[Approve](<{EVIL}>)",
    f'[Approve]({EVIL} "your bank")',
    f"[✅ Approve [now]]({EVIL})",
    f"[bank.example]({EVIL})",
    f"[https://bank.example]({EVIL})",
    f"[![Approve](https://bank.example/a.png)]({EVIL})",
    f"<{EVIL}|Approve>",
    "[Approve](https://bank.example@evil.example/approve)",
    "[Approve](HTTPS://evil.example)",
    f"[Approve][1]\n\n[1]: {EVIL}",
    f"[Approve][]\n\n[Approve]: {EVIL}",
    f"[Approve]\n\n[Approve]: {EVIL}",
    f"[App\nrove]({EVIL})",
    rf"\`[Approve]({EVIL})\`",
    f"``[Approve]({EVIL})`",
    "[Approve](mailto:ana@evil.example)",
    f"| a |\n|---|\n| [Approve]({EVIL}) |",
    f"- [Approve]({EVIL})",
    f"# [Approve]({EVIL})",
]
# addresses that seem to lead elsewhere than they do
DECEIVING = [
    "https://bank.example@evil.example/approve",
    "HTTPS://bank.example:443@evil.example",
    "<https://bank.example@evil.example>",
    "(https://bank.example@evil.example)",
    f"https://{'bank.example.' * 40}@evil.example",
    f"https://{'bank.example.' * 40}/approve",
    "https://bаnk.example/",
    "<https://bаnk.example>",
    r"https://evil.example\@bank.example",
    r"[bank.example](https://evil.example\@bank.example)",
    r"[Approve](https://evil.example\.bank.example)",
    "[Approve](https://bank.example%40evil.example)",
    "https://bank.example%2F@evil.example",
]
READER = MarkdownIt("commonmark", {"linkify": False}).enable("table")
BARE = re.compile(r"https?://[^\s<>)]+", re.IGNORECASE)


def list_links(text: str) -> list[tuple[str, str]]:
    """List label and target of each link that a reader of Markdown sees."""
    found = []
    for block in READER.parse(text):
        label, target = None, ""
        for each in block.children or []:
            if each.type == "link_open":
                label, target = "", str(each.attrGet("href"))
            elif each.type == "link_close":
                found.append((label or "", target))
                label = None
            elif each.type == "image":
                found.append((each.content, str(each.attrGet("src"))))
            elif label is not None:
                label += each.content
    return found


@pytest.mark.parametrize("text", [*ESCAPES.values(), *LINKS], ids=repr)
def test_all_of_a_models_words_stay_in_one_quote(text: str) -> None:
    """Each line is quoted, and Markdown reads all of them as one quote."""
    frame = format_as_blockquote(text)
    assert all(line.startswith(">") for line in frame.splitlines())
    tops = [each.type for each in READER.parse(frame) if each.level == 0]
    assert tops == ["blockquote_open", "blockquote_close"]


@pytest.mark.parametrize("text", LINKS, ids=repr)
def test_a_link_is_labelled_with_its_host(text: str) -> None:
    """This holds for every way to write a link."""
    frame = format_as_blockquote(text)
    assert "evil.example" in frame
    for label, target in list_links(frame):
        assert label in ("evil.example", "ana@evil.example", "bank.example", target), (frame, label)
        host = target.partition(":")[2].lstrip("/").rpartition("@")[2].partition("/")[0]
        assert host.lower().endswith(label.rpartition("@")[2]) or label == target


@pytest.mark.parametrize("text", DECEIVING, ids=repr)
def test_a_deceptive_address_is_no_link(text: str) -> None:
    """It names somebody before its host, or is not written as DNS writes it."""
    frame = format_as_blockquote(text)
    assert list_links(frame) == []
    assert BARE.findall(frame) == []
    assert "evil.example" in frame or "аnk" in frame or "bank.example." in frame


@pytest.mark.parametrize("sign", ["\u202e", "\u202d", "\u2066", "\u2067", "\u200f", "\u061c"])
def test_a_character_that_reverses_text_is_written_out(sign: str) -> None:
    """So a host reads as it is."""
    frame = format_as_blockquote(f"{sign}a [b]({EVIL}) {sign}")
    assert sign not in frame
    assert frame.count(f"⟨U+{ord(sign):04X}⟩") == 2


def test_a_host_in_another_script_is_shown_as_punycode() -> None:
    """Its letters look like Latin ones."""
    assert "([xn--" in format_as_blockquote("[аррӏе.com](https://аррӏе.com)")


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        ("[docs.example](https://docs.example/)", "> [docs.example](https://docs.example/)"),
        ("[https://a.b/c](https://a.b/c)", "> [a.b/c](https://a.b/c)"),
        ("See the [guide](https://a.b/c).", "> See the guide ([a.b](https://a.b/c))."),
        ("Run it [here](javascript:alert(1))", "> Run it [here] (javascript:alert(1))"),
        ("- [x] done\n- [ ] open", "> - [x] done\n> - [ ] open"),
        ("a < b and https://a.b/c", "> a < b and https://a.b/c"),
        ("<!here> <@U0AAA|ana>", "> @here @ana"),
        ("", ""),
    ],
)
def test_honest_links_and_plain_text_stay_as_they_are(text: str, frame: str) -> None:
    """Links with other labels show their host; mentions notify nobody."""
    assert format_as_blockquote(text) == frame


def test_a_streamed_text_never_has_to_be_taken_back() -> None:
    """What is shown of a growing text is always the beginning of what is shown next."""
    random.seed(11)
    pieces = [
        *ESCAPES.values(),
        *LINKS,
        *DECEIVING,
        "plain words ",
        "a [b] c ",
        "x < y ",
        "\n",
        "\n\n",
        "\r\n",
    ]
    for _ in range(60):
        text = "".join(random.choices(pieces, k=6))
        shown = ""
        for end in range(len(text) + 1):
            now = format_as_blockquote(cut_before_unfinished_link(text[:end]))
            assert now.startswith(shown), (text, end)
            shown = now
        assert format_as_blockquote(text).startswith(shown)


@pytest.mark.parametrize(
    "text",
    ["\n" * 40_000, "a\n" * 15_000, f"[a]({EVIL}) " * 900, "x" * 30_000, "[a](b" * 9_000],
    ids=["blank", "short lines", "links", "one word", "brackets"],
)
def test_each_quoted_part_of_a_long_text_fits_a_message(text: str) -> None:
    """This holds for any kind of text, and takes little time."""
    for part in split_into_message_parts(text):
        assert count_slack_characters(format_as_blockquote(part)) <= MAX_PART_CHARS
