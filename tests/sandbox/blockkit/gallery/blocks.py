"""The gallery's blocks, each with the surface it is shown on; the elements are in block_gallery."""

from __future__ import annotations

from tests.sandbox.blockkit.gallery import (
    CAT,
    CONTEXT_ACTIONS,
    ELEMENTS,
    Json,
    asking,
    button,
    mrkdwn,
    plain,
    rich,
    words,
)

DIVIDER: Json = {"type": "divider"}
IMAGE: Json = {"type": "image", "image_url": CAT, "alt_text": "a cat"}
LEAVES: dict[str, list[Json]] = {
    "text": [
        words("plain, "),
        words("bold, ", "bold"),
        words("italic, ", "italic"),
        words("struck, ", "strike"),
        words("underlined, ", "underline"),
        words("code", "code"),
        words(" and all", "bold", "italic", "strike"),
    ],
    "link": [
        {"type": "link", "url": "https://shop.example/7"},
        words(" or "),
        {
            "type": "link",
            "url": "https://shop.example/8",
            "text": "order 8",
            "style": {"bold": True},
        },
    ],
    "user": [{"type": "user", "user_id": "UANA00001"}, words(" please look")],
    "usergroup": [{"type": "usergroup", "usergroup_id": "S0LEADS"}, words(" please look")],
    "channel": [words("see "), {"type": "channel", "channel_id": "C0SUPPORT"}],
    "team": [{"type": "team", "team_id": "T0SANDBOX"}],
    "emoji": [
        {"type": "emoji", "name": "wave", "skin_tone": 3},
        {"type": "emoji", "name": "tada", "unicode": "1f389"},
    ],
    "broadcast": [{"type": "broadcast", "range": each} for each in ("here", "channel", "everyone")],
    "color": [{"type": "color", "value": "#1f2937"}],
    "date": [
        {
            "type": "date",
            "timestamp": 1772280000,
            "format": "{date_long_pretty} at {time}",
            "fallback": "28 February",
        },
        {
            "type": "date",
            "timestamp": 1772280000,
            "format": "{ago}",
            "url": "https://shop.example/7",
        },
    ],
}


def paragraph(*leaves: Json) -> Json:
    """A rich_text_section."""
    return {"type": "rich_text_section", "elements": list(leaves)}


def bullets(*lines: str, style: str = "bullet", indent: int = 0, **more: int) -> Json:
    """A rich_text_list of plain lines."""
    items = [paragraph(words(line)) for line in lines]
    return {"type": "rich_text_list", "style": style, "indent": indent, "elements": items, **more}


CODE = {
    "type": "rich_text_preformatted",
    "elements": [words("print('hello')\n")],
    "language": "python",
    "border": 1,
}
QUOTE = {"type": "rich_text_quote", "elements": [words("so it was said")]}
TALL: Json = {
    "type": "rich_text",
    "elements": [
        paragraph(words("Before the lists.\n")),
        bullets("one", "two"),
        bullets("deeper", indent=1),
        bullets("first", "second", style="ordered", offset=2, border=1),
        QUOTE,
        CODE,
    ],
}


def task(number: int, title: str, status: str, **more: object) -> Json:
    """A task_card."""
    return {
        "type": "task_card",
        "task_id": f"task_{number}",
        "title": title,
        "status": status,
        **more,
    }


SOURCES = [{"type": "url", "url": "https://shop.example/orders/7", "text": "Order 7"}]
TASKS = [
    task(1, "Find the order", "complete", output=rich(words("It is order 7.")), sources=SOURCES),
    task(2, "Look at the payment", "in_progress", details=rich(words("Paid by card."))),
    task(3, "Ask for approval", "pending"),
    task(4, "Send a letter", "error", output=rich(words("no address", "italic"))),
]
CARD: Json = {
    "type": "card",
    "hero_image": IMAGE,
    "icon": IMAGE,
    "title": plain("A basket"),
    "subtitle": mrkdwn("_willow_"),
    "body": mrkdwn("Woven by hand, *39.90 EUR*."),
    "actions": [button("Buy", "buy", style="primary"), button("Later", "later")],
}


def cell(text: str) -> Json:
    """A table's cell of text."""
    return {"type": "raw_text", "text": text}


def amount(value: float, text: str = "") -> Json:
    """A data table's cell with a number."""
    return {"type": "raw_number", "value": value} | ({"text": text} if text else {})


def bold(text: str) -> Json:
    """A table's cell of rich text."""
    return {"type": "rich_text", "elements": [paragraph(words(text, "bold"))]}


TABLE: Json = {
    "type": "table",
    "column_settings": [{"is_wrapped": True}, None, {"align": "right"}],
    "rows": [
        [bold("Order"), cell("Item"), cell("EUR")],
        [cell("7"), cell("A basket"), cell("39.90")],
    ],
}
DATA_TABLE: Json = {
    "type": "data_table",
    "caption": "Orders of this week",
    "page_size": 2,
    "row_header_column_index": 0,
    "rows": [
        [cell("Order"), cell("Item"), cell("EUR")],
        [amount(7), cell("A basket"), amount(39.9, "39.90")],
        [amount(8), bold("Two lamps"), amount(120, "120.00")],
        [amount(9), cell("A chair"), amount(75.5, "75.50")],
    ],
}
MONTHS = ["May", "June", "July"]


def chart(kind: str) -> Json:
    """A data_visualization with two lines, rows of bars or areas."""
    series = [
        {
            "name": name,
            "data": [{"label": m, "value": v} for m, v in zip(MONTHS, values, strict=True)],
        }
        for name, values in (("Refunds", (3, 5.5, 2)), ("Orders", (30, 42, -4)))
    ]
    axis = {"categories": MONTHS, "x_label": "month", "y_label": "thousand EUR"}
    shown = {"type": kind, "series": series, "axis_config": axis}
    return {"type": "data_visualization", "title": f"A {kind} chart", "chart": shown}


PIE = {
    "type": "pie",
    "segments": [{"label": "Card", "value": 62.5}, {"label": "Cash", "value": 30}],
}
VIDEO: Json = {
    "type": "video",
    "title": plain("How to weave a basket"),
    "title_url": "https://shop.example/film",
    "description": plain("Six minutes"),
    "alt_text": "a film about baskets",
    "thumbnail_url": CAT,
    "video_url": "https://shop.example/film/embed",
    "author_name": "Ana",
    "provider_name": "Shop films",
    "provider_icon_url": CAT,
}
MARKDOWN = """# Head
Some **bold**, *italic*, ~~struck~~ and `code`, a [link](https://shop.example).

- one
- two
    1. deeper

> quoted

```python
print("hello")
```

| Order | EUR |
|---|---:|
| 7 | 39.90 |

- [x] done
- [ ] open

---
"""
LETTER = (
    "<https://shop.example|order 7>, <@UANA00001> in <#C0SUPPORT>: "
    "*bold* _italic_ ~no~ `code`\n>quote\n• list"
)
BOX: Json = {
    "type": "container",
    "title": plain("Order 7"),
    "subtitle": mrkdwn("paid by *card*"),
    "icon": IMAGE,
    "child_blocks": [
        {"type": "section", "text": mrkdwn("A basket")},
        DIVIDER,
        {"type": "actions", "elements": [button("Pay back", "refund")]},
    ],
}
MENU = ELEMENTS["overflow"]
AUTH: Json = {
    "type": "auth_provider",
    "value": "shop",
    "name": plain("Shop"),
    "is_connected": False,
    "description": plain("Orders and refunds"),
    "icon_url": CAT,
    "auth_url": "https://shop.example/connect",
    "disconnect_url": "https://shop.example/disconnect",
}
BLOCKS: dict[str, tuple[str, list[Json]]] = {
    "section": ("message", [{"type": "section", "text": mrkdwn(LETTER)}]),
    "section plain": ("message", [{"type": "section", "text": plain("As it *stands* :wave:")}]),
    "section fields": (
        "message",
        [
            {
                "type": "section",
                "fields": [mrkdwn("*Order*\n7"), mrkdwn("*Item*\nA basket"), plain("39.90 EUR")],
            }
        ],
    ),
    "section expanded": (
        "message",
        [{"type": "section", "text": mrkdwn("line\n" * 20), "expand": True}],
    ),
    "section with an image": (
        "message",
        [{"type": "section", "text": mrkdwn("A cat"), "accessory": IMAGE}],
    ),
    "header": ("message", [{"type": "header", "text": plain("A refund waits")}]),
    "header levels": (
        "message",
        [{"type": "header", "text": plain(f"Level {n}"), "level": n} for n in (1, 2, 3, 4)],
    ),
    "divider": ("message", [DIVIDER]),
    "image": ("message", [{**IMAGE, "title": plain("Our cat")}]),
    "image of a file": (
        "message",
        [{"type": "image", "alt_text": "a cat", "slack_file": {"id": "F0CAT"}}],
    ),
    "context": (
        "message",
        [{"type": "context", "elements": [IMAGE, mrkdwn("*Ana* asked"), plain("at noon")]}],
    ),
    "actions": (
        "message",
        [
            {
                "type": "actions",
                "elements": [{**e, "action_id": n} for n, e in list(ELEMENTS.items())[:8]],
            }
        ],
    ),
    "context_actions": (
        "message",
        [
            {
                "type": "context_actions",
                "elements": [{**e, "action_id": n} for n, e in CONTEXT_ACTIONS.items()],
            }
        ],
    ),
    "input in a message": ("message", [asking({"type": "plain_text_input", "action_id": "note"})]),
    "input required": ("modal", [asking({"type": "plain_text_input", "action_id": "note"})]),
    "rich_text": ("message", [TALL]),
    **{f"rich_text {kind}": ("message", [rich(*leaves)]) for kind, leaves in LEAVES.items()},
    "markdown": ("message", [{"type": "markdown", "text": MARKDOWN}]),
    "table": ("message", [TABLE]),
    "data_table": ("message", [DATA_TABLE]),
    **{
        f"data_visualization {kind}": ("message", [chart(kind)]) for kind in ("line", "bar", "area")
    },
    "data_visualization pie": (
        "message",
        [{"type": "data_visualization", "title": "Payments", "chart": PIE}],
    ),
    **{f"task_card {each['status']}": ("message", [each]) for each in TASKS},
    "plan": ("message", [{"type": "plan", "title": "A refund for order 7", "tasks": TASKS}]),
    "plan empty": ("message", [{"type": "plan", "title": plain("Thinking")}]),
    **{
        f"alert {level}": (
            "modal",
            [{"type": "alert", "text": mrkdwn(f"An alert of level *{level}*"), "level": level}],
        )
        for level in ("default", "info", "warning", "error", "success")
    },
    "card": ("message", [CARD]),
    "card of a text": ("home", [{"type": "card", "body": plain("Only a body")}]),
    "carousel": (
        "message",
        [
            {
                "type": "carousel",
                "elements": [CARD, {**CARD, "title": plain("A lamp")}, {**CARD, "icon": IMAGE}],
            }
        ],
    ),
    "container": ("message", [BOX]),
    "container collapsed": (
        "message",
        [{**BOX, "is_collapsible": True, "default_collapsed": True}],
    ),
    "container full with a line": (
        "message",
        [{**BOX, "width": "full", "has_header_divider": True}],
    ),
    "container rich title": (
        "home",
        [
            {
                "type": "container",
                "rich_text_title": rich(words("Order "), words("7", "code")),
                "width": "narrow",
                "child_blocks": [TALL],
            }
        ],
    ),
    "video": ("message", [VIDEO]),
    "auth_provider": ("message", [AUTH]),
    "auth_provider connected": (
        "home",
        [
            {
                **AUTH,
                "is_connected": True,
                "connected_identity": plain("ana@shop.example"),
                "accessory": MENU,
            }
        ],
    ),
    "everything of a card that asks": (
        "message",
        [
            {"type": "header", "text": plain("Refund 39.90 EUR?")},
            {
                "type": "section",
                "text": mrkdwn("*Ana* asks, until noon"),
                "accessory": ELEMENTS["overflow"],
            },
            {"type": "context", "elements": [plain("call_7 · revision 1")]},
            {
                "type": "actions",
                "elements": [button("Approve", "yes", style="primary"), button("Reject", "no")],
            },
        ],
    ),
}
