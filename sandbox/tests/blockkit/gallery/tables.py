"""The gallery's tables and charts."""

from __future__ import annotations

from sandbox.tests.blockkit.gallery.builders import Json, words
from sandbox.tests.blockkit.gallery.rich_text import paragraph


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
