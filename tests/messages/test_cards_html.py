"""Cards and dialogs as HTML: every text is there in full, and no markup of others works."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.cards import block_kit
from bot.cards.card import render_card, render_card_without_buttons
from bot.cards.field_values import list_argument_values
from bot.cards.review_dialog import (
    render_break_glass_dialog,
    render_hand_over_dialog,
    render_objection_dialog,
    render_reject_dialog,
    render_review_dialog,
    render_send_back_dialog,
)
from bot.cards.slack_text import show_hidden_characters
from bot.cards.views import (
    ArgumentValue,
    CallView,
    DelegatedTask,
    MissingVotes,
    RunWithoutApproval,
    VoteProgress,
)
from bot.http.signing_pages import UnknownBlockError, render_blocks_as_html
from bot.tools.arguments import build_readable_arguments, dump_arguments, load_arguments
from storage.states import CallStatus
from tests.approvals.every_leaf import Maker
from tests.messages.cards_support import CANCEL, NOW, REFUND, view

EVIL = (
    "<script>alert(1)</script>",
    "</pre></main><img src=x onerror=alert(1)>",
    "& &amp; &lt;b&gt; &#60;",
    "\"><a href='javascript:alert(1)'>x",
    "<@U1> <!here> <!channel> <https://evil.example|Approve> <#C1|general>",
    "*bold* _thin_ ~gone~ `code` *<@UANA00001>*",
    "\u202egnp.exe \u2066x\u2069 \u200b",
    "שלום 12 <b>",
    "\n\n first line ends\r\n\tand\x00 \ud800 spaces   ",
    "<!-- ]]> {{1}}",
)
NAMES = {"UBEN00001": "Ben Okafor", "UANA00001": EVIL[0], "S0LEADS": "@shop-leads", "C1": "support"}
TAGS = {"h2", "p", "div", "hr", "blockquote", "pre", "ul", "li"}
TAGS |= {"bdi", "time", "a", "strong", "em", "s", "code"}
ATTRIBUTES = {"dir", "class", "datetime", "href", "rel", "target"}


class RenderedHtml(HTMLParser):
    """The HTML as a browser reads it: its text and its links."""

    def __init__(self, drawn: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text, self.links, self._open = "", list[str](), list[str]()
        self.feed(drawn)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        assert {name for name, _ in attrs} <= ATTRIBUTES, attrs
        self.links += [value or "" for name, value in attrs if name == "href"]
        if tag != "hr":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        pytest.fail(f"a comment: {data}")


def accept_html(blocks: list[dict[str, Any]]) -> RenderedHtml:
    """Fail unless the HTML of these blocks has all of their texts in order; returns the HTML."""
    seen, place = RenderedHtml(render_blocks_as_html(blocks, lambda each: NAMES.get(each, ""))), 0
    for text in map(write_out, list_texts(blocks)):
        place = seen.text.find(text, place)
        assert place >= 0, (text, seen.text)
        place += len(text)
    return seen


def list_texts(thing: Any) -> Iterator[str]:
    """List every text of these blocks, in order, except those of buttons and inputs."""
    if isinstance(thing, list):
        for each in thing:
            yield from list_texts(each)
    if not isinstance(thing, dict) or thing.get("type") in ("actions", "input"):
        return
    match thing.get("type"), thing.get("text"):
        case "mrkdwn", text:
            yield from filter(None, map(html.unescape, re.split(r"<[^<>]*>|\*", str(text))))
        case ("user" | "channel") as kind, _:
            found = str(thing[f"{kind}_id"])
            yield NAMES.get(found, found)
        case "date", _:
            yield thing["fallback"]
        case _, str(text):
            yield text
        case _:
            for key, each in thing.items():
                if key != "accessory":
                    yield from list_texts(each)


def write_out(text: str) -> str:
    """Write out the hidden characters of a text, except the marks that the bot itself sets."""
    marks = re.split("([\u2068\u2069])", text)
    return "".join(
        each if each in "\u2068\u2069" else show_hidden_characters(each) for each in marks
    )


def render_everything(call: CallView) -> Iterator[list[dict[str, Any]]]:
    """Render the blocks of each card and dialog that shows this call."""
    told = {
        "requester_messages": (call.title, call.effect),
        "edited_messages": (call.effect,),
        "delegated_tasks": (DelegatedTask(call.title, "", call.effect),),
        "origin": f"https://demo.example/archives/C1/p1?<{call.title}>|&x",
        "client": call.title,
        "viewers": {"UANA00001": NOW},
        "notes": ("Only *two* of <#C1> are there.",),
        "approver_channel": "C1",
    }
    card = view(call, **told)
    yield render_card(card, NOW).blocks
    yield render_card(view(call, CANCEL, **told), NOW).blocks
    yield render_card_without_buttons(card, "C1", NOW).blocks
    yield render_review_dialog(call, asked="Asked by <@UBEN00001>", approvers="<!subteam^S0LEADS>")[
        "blocks"
    ]
    yield render_review_dialog(call, bar=call.effect)["blocks"]
    yield render_break_glass_dialog(call)["blocks"]
    yield render_reject_dialog(call.target, count=1, title=call.effect)["blocks"]
    yield render_send_back_dialog(call.target, title=call.effect)["blocks"]
    yield render_objection_dialog(call.target, call.effect)["blocks"]
    yield render_hand_over_dialog(call.target, title=call.effect)["blocks"]


def make_full_call(text: str, **changes: Any) -> CallView:
    """Make a call with everything that a call may have, and this text in each foreign text."""
    mentioned = ArgumentValue("Who", "x", None, mentions=("UANA00001", "C1"))
    values = (
        ArgumentValue(text or "Note", text, f"{text} before"),
        ArgumentValue("Code", f"{text}\n{text}", is_code=True),
        ArgumentValue("Secret", "••••••••", is_secret=True),
        mentioned,
        ArgumentValue("Long", text * 900),
    )
    missing = (MissingVotes(1, ("S0LEADS",)), MissingVotes(1, (), ("UANA00001",), "C1"))
    call = replace(
        REFUND,
        title=text or "Refund",
        effect=f"Refund {text}",
        does="destructive",
        values=values,
        preview=f"Order 1042\n{text}",
        has_more_rows=True,
        masked_pieces=("Amount",),
        agent_reason=text,
        agent=text or "The agent",
        delegation_lines=(text or "x",),
        program_note=text,
        edits=(("UANA00001", NOW),),
        note=text,
        result=text,
        remarks=(("UANA00001", text or "fine"),),
        may_break_glass=True,
        progress=VoteProgress(("UANA00001",), (), 1, stages=2, missing=missing),
        grant_offers=("for 7 days",),
    )
    return replace(call, **changes)


@pytest.mark.parametrize("text", EVIL)
def test_markup_in_foreign_text_stays_text(text: str) -> None:
    """All of the text is on the page, in whatever field it is."""
    for blocks in render_everything(make_full_call(text)):
        seen = accept_html(blocks)
        assert all(each.startswith("https://demo.example/") for each in seen.links)


@pytest.mark.parametrize("status", CallStatus)
def test_every_status_can_be_drawn(status: CallStatus) -> None:
    """This includes calls that ran without approval, and votes of a delegate."""
    alone = RunWithoutApproval("UANA00001", EVIL[0], "UBEN00001", EVIL[1])
    at = {"decided_by": ("UANA00001",), "decided_at": NOW, "finished_at": NOW}
    for changes in ({}, {"without_approval": alone}, {"stand_ins": {"UANA00001": "UBEN00001"}}):
        call = make_full_call(EVIL[0], status=status, **at, **changes)
        for blocks in render_everything(
            replace(call, approval_expires_at=NOW + timedelta(hours=1))
        ):
            accept_html(blocks)


def test_every_argument_of_random_tools_is_in_the_html() -> None:
    """The tools are of every source. The page shows whatever the card and Review show."""
    for seed in range(60):
        sample = Maker(seed).sample(Random(seed).choice(("program", "server", "python")))
        try:
            stored = dump_arguments(load_arguments(sample.tool, sample.given))
        except ValueError:  # a key that is taken for another one
            continue
        rows = list_argument_values(sample.tool, build_readable_arguments(sample.tool, stored))
        call = replace(REFUND, values=rows)
        accept_html(render_card(view(call), NOW).blocks)
        accept_html(render_review_dialog(call)["blocks"])


@given(st.text(st.characters(codec=None)))
def test_any_text_in_any_kind_of_block_is_escaped(text: str) -> None:
    """Hidden characters are written out; nothing else is changed."""
    leaves = [block_kit.text_leaf(text, **{style: True}) for style in ("bold", "italic", "code")]
    blocks = [
        block_kit.header_block("h", text),
        block_kit.section_block("s", block_kit.plain_text(text)),
        block_kit.two_column_section("c", [block_kit.plain_text(text)]),
        block_kit.rich_text_block(
            "r",
            [
                block_kit.rich_text_line(*leaves),
                block_kit.rich_text_preformatted(text),
                block_kit.rich_text_list([block_kit.rich_text_line(*leaves)]),
                block_kit.rich_text_quote(text),
            ],
        ),
    ]
    drawn = render_blocks_as_html(blocks, lambda _: "")
    assert drawn.count(html.escape(write_out(text))) >= 10 or not text
    RenderedHtml(drawn)
    drawn.encode()


@pytest.mark.parametrize(
    ("mrkdwn", "text", "links"),
    [
        ("*<@UBEN00001>* asks", "@Ben Okafor asks", []),
        ("<@UANA00001|x>, <@UNOBODY>", "@<script>alert(1)</script>, @UNOBODY", []),
        ("<!subteam^S0LEADS> in <#C1>", "@shop-leads in #support", []),
        ("<!here> &lt;!here&gt;", "@here <!here>", []),
        (
            "<!date^1795273200^{date_short_pretty} ({ago})|21 Nov 2026, 15:00 UTC>",
            "21 Nov 2026, 15:00 UTC",
            [],
        ),
        ("<https://a.example/x|see it>", "see it (https://a.example/x)", ["https://a.example/x"]),
        (
            "<https://a.example/*x*?a=1&amp;b>",
            "https://a.example/*x*?a=1&b",
            ["https://a.example/*x*?a=1&b"],
        ),
        ("<javascript:alert(1)|see it>", "see it (javascript:alert(1))", []),
        ("<|x> <!|> <!date^x|y> <!subteam>", "x () @ @y @subteam", []),
        ("<data:text/html,x>", "data:text/html,x", []),
        ("2 * 3 * 4, a*b*c, *", "2 * 3 * 4, a*b*c, *", []),
        ("*&lt;script&gt;*", "<script>", []),
    ],
)
def test_mrkdwn_is_shown_as_in_slack(mrkdwn: str, text: str, links: list[str]) -> None:
    """Mentions have names, times are in UTC, links show their address; only web links work."""
    block = block_kit.section_block("s", block_kit.mrkdwn(mrkdwn))
    seen = RenderedHtml(render_blocks_as_html([block], lambda each: NAMES.get(each, "")))
    assert (seen.text, seen.links) == (text, links)


def test_a_line_end_at_the_start_of_preformatted_text_is_kept() -> None:
    """HTML drops the first one, so there is one more."""
    frame = block_kit.rich_text_block("r", [block_kit.rich_text_preformatted("\nx")])
    assert '<pre dir="auto">\n\nx</pre>' in render_blocks_as_html([frame], lambda _: "")


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "image_url": "https://x.example"},
        {"type": "section", "text": block_kit.plain_text("x"), "fields": []},
        {"type": "context", "elements": [{"type": "image"}]},
        {"type": "rich_text", "elements": [{"type": "rich_text_new", "elements": []}]},
        {"type": "rich_text", "elements": [block_kit.rich_text_line({"type": "emoji"})]},
    ],
)
def test_an_unknown_block_or_element_is_refused(block: dict[str, Any]) -> None:
    """Otherwise a part would be shown as if it were everything."""
    with pytest.raises(UnknownBlockError):
        render_blocks_as_html([block], lambda _: "")
