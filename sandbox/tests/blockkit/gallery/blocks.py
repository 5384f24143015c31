"""The gallery's blocks, each with the surface it is shown on."""

from __future__ import annotations

from sandbox.tests.blockkit.gallery.builders import (
    CAT,
    Json,
    button,
    input_block,
    mrkdwn,
    plain,
    rich,
    words,
)
from sandbox.tests.blockkit.gallery.elements import CONTEXT_ACTIONS, ELEMENTS
from sandbox.tests.blockkit.gallery.rich_text import LEAVES, TALL
from sandbox.tests.blockkit.gallery.tables import DATA_TABLE, PIE, TABLE, chart

DIVIDER: Json = {"type": "divider"}
IMAGE: Json = {"type": "image", "image_url": CAT, "alt_text": "a cat"}


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
    "input in a message": (
        "message",
        [input_block({"type": "plain_text_input", "action_id": "note"})],
    ),
    "input required": ("modal", [input_block({"type": "plain_text_input", "action_id": "note"})]),
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
