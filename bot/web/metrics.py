"""What Prometheus reads: the page of metrics."""

from __future__ import annotations

from http import HTTPStatus

from bot.watch.exporters import METRICS, missing
from bot.watch.spans import Tracer
from bot.web.pages import Page, PageText

KIND = "text/plain; version=0.0.4; charset=utf-8"


def metrics_page(watch: Tracer) -> Page:
    """Return the page; where nothing counts it says which extra is missing."""

    def answer() -> PageText:
        text = watch.page()
        if text is None:
            return PageText(HTTPStatus.NOT_IMPLEMENTED, f"{missing(METRICS)}\n")
        return PageText(HTTPStatus.OK, text, KIND)

    return Page("/metrics", answer)
