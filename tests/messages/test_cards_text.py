"""Texts for Slack: escaping, mentions, times, shortening, harmless Markdown."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.cards.slack_text import (
    channel_mention,
    count_slack_characters,
    escape_mrkdwn,
    format_local_time,
    group_mention,
    replace_notifying_mentions,
    shorten_text,
    split_markdown,
    strip_markdown,
    user_mention,
)

AT = datetime(2026, 11, 21, 14, 2, tzinfo=UTC)
CONTROL = st.text(alphabet="<>!@|^UWSabc1-`\nhere", max_size=60)
BITS = st.sampled_from(
    [
        "<!here>",
        "<!channel|x>",
        "<@UANA00001>",
        "<!subteam^S0LEADS|@leads>",
        "<",
        ">",
        "<!date^1^x|y>",
    ]
)


def test_only_three_characters_are_escaped() -> None:
    """The ampersand is escaped first, so nothing is escaped twice."""
    assert escape_mrkdwn("a & b <c> *d* &amp;") == "a &amp; b &lt;c&gt; *d* &amp;amp;"


@pytest.mark.parametrize("odd", ["", "UANA|x", "U1> <!here", "C0SUPPORT", "u1", "<@U1>"])
def test_a_text_that_is_no_id_does_not_become_a_mention(odd: str) -> None:
    """It never gets between angle brackets."""
    assert user_mention(odd) == "someone"
    assert group_mention(odd) == "a user group"
    assert "<" not in channel_mention(odd) or odd == "C0SUPPORT"


def test_ids_of_people_groups_and_channels_become_mentions() -> None:
    """Slack shows them by name."""
    assert user_mention("UANA00001") == "<@UANA00001>"
    assert group_mention("S0LEADS") == "<!subteam^S0LEADS>"
    assert channel_mention("C0SUPPORT") == "<#C0SUPPORT>"


def test_a_time_is_formatted_for_the_readers_time_zone() -> None:
    """Slack is also given the time in UTC, for clients that cannot localise."""
    assert (
        format_local_time(AT)
        == "<!date^1795269720^{date_short_pretty} at {time}|21 Nov 2026, 14:02 UTC>"
    )
    assert format_local_time(AT.astimezone(timezone(timedelta(hours=9)))) == format_local_time(AT)


@given(st.text(max_size=300), st.integers(40, 200))
def test_a_shortened_text_counts_what_is_missing(text: str, limit: int) -> None:
    """It is within the limit, counted after escaping."""
    short = shorten_text(text, limit)
    assert count_slack_characters(short) <= limit
    if short != text:
        start, missing = re.fullmatch(r"(.*)… \((\d+) more characters\)", short, re.DOTALL).groups()  # type: ignore[union-attr]  # the mark is there
        assert text.startswith(start)
        assert len(text) - len(start) == int(missing)
    else:
        assert count_slack_characters(text) <= limit


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("Hi <!channel>!", "Hi @channel!"),
        ("<!here|here> <!everyone>", "@here @everyone"),
        ("<!subteam^S0LEADS|@shop-leads> <!subteam^S0LEADS>", "@shop-leads @S0LEADS"),
        ("ask <@UANA00001> or <@UCLEO0001|cleo>", "ask @UANA00001 or @cleo"),
        ("in <#C0SUPPORT> see <https://a.example>", "in <#C0SUPPORT> see <https://a.example>"),
        ("<!date^1^{date}|today>", "today"),
        (
            "a < b, <b>, <!-- note -->, <!DOCTYPE html>",
            "a < b, <b>, <!-- note -->, <!DOCTYPE html>",
        ),
        ("<!HERE>", "@HERE"),
        ("<<!here|@UANA00001>>", "‹@UANA00001>"),
    ],
)
def test_the_models_markdown_notifies_nobody(text: str, harmless: str) -> None:
    """Broadcasts and mentions become plain names; other Markdown is unchanged."""
    assert replace_notifying_mentions(text) == harmless


@given(st.one_of(CONTROL, st.lists(st.one_of(BITS, CONTROL), max_size=6).map("".join)))
def test_nested_mentions_leave_no_mention_behind(text: str) -> None:
    """A second pass changes nothing."""
    harmless = replace_notifying_mentions(text)
    assert not re.search(
        r"<(@[UWB]|!(channel|here|everyone|group|subteam))", harmless, re.IGNORECASE
    )
    assert replace_notifying_mentions(harmless) == harmless


def test_short_markdown_is_one_part() -> None:
    """It is unchanged; blank text has no part."""
    assert split_markdown("# Hi\n\nthere") == ["# Hi\n\nthere"]
    assert split_markdown(" \n") == []


def test_markdown_is_split_after_paragraphs() -> None:
    """No text is lost."""
    text = "\n\n".join(f"{n} " + "word " * 10 for n in range(6))
    parts = split_markdown(text, 130)
    assert len(parts) == 3
    assert all(part[0].isdigit() for part in parts)
    assert "\n\n".join(parts) == text


def test_code_that_is_split_is_fenced_in_both_parts() -> None:
    """The second part has the language, too."""
    text = (
        "Look:\n\n```python\n" + "".join(f"line_{n}()\n" for n in range(40)) + "```\nThat is all."
    )
    parts = split_markdown(text, 150)
    assert len(parts) > 3
    inner = [part for part in parts if "line_" in part]
    assert all(part.startswith("```python\n") for part in inner)
    assert all(part.count("```") == 2 for part in inner)
    assert [int(n) for n in re.findall(r"line_(\d+)", "".join(parts))] == list(range(40))


@given(st.text(alphabet="ab &`~\n🏴", max_size=600), st.integers(100, 160))
def test_parts_of_markdown_are_within_the_limit_and_complete(text: str, limit: int) -> None:
    """Only fences and white space are added or lost."""
    parts = split_markdown(text, limit)
    assert all(count_slack_characters(part) <= limit for part in parts)
    assert re.sub(r"[\s`~]", "", "".join(parts)) == re.sub(r"[\s`~]", "", text)


def test_a_very_long_word_is_split() -> None:
    """It has no spaces at which it could be split."""
    parts = split_markdown("x" * 30_000)
    assert "".join(parts) == "x" * 30_000
    assert max(map(len, parts)) <= 11_000


@pytest.mark.parametrize(
    ("markdown", "read"),
    [
        ("**Note** is done: *really*, ~~not~~ `x`", "Note is done: really, not x"),
        ("# Result\n> said\n```sql\nSELECT 1\n```", "Result\nsaid\n\nSELECT 1\n"),
        ("see **[the _order_](https://shop/1)**", "see the order"),
        (
            "2 * 3 ** 4, snake_case_name, __init__.py * x",
            "2 * 3 ** 4, snake_case_name, init.py * x",
        ),
        ("**not closed", "**not closed"),
        ("**_both_**", "both"),
    ],
)
def test_a_notification_has_no_markdown(markdown: str, read: str) -> None:
    """Characters that only look like Markdown stay."""
    assert strip_markdown(markdown) == read
