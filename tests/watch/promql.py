"""The part of PromQL that the alerts of docs/alerts.yml use, over a test's scrapes.

As in Prometheus, a counter's growth needs two scrapes of its series. Only the ends of a window are
not extrapolated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<matchers>\{[^}]*\})"
    r"|(?P<window>\[\d+[smh]\])|(?P<sign>==|[()><*,]))"
)
_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
_SECONDS = {"s": 1, "m": 60, "h": 3600}


@dataclass
class Scraped:
    """The scrapes so far, each at its second."""

    at: list[float] = field(default_factory=list)
    found: list[dict[tuple[str, Labels], float]] = field(default_factory=list)

    def add(self, at: float, page: str | None, job: str = "countersign") -> None:
        """Add a scrape; None if nobody answered."""
        samples = {("up", frozenset({("job", job)})): float(page is not None)}
        for family in text_string_to_metric_families(page or ""):
            for each in family.samples:
                samples[each.name, frozenset(each.labels.items())] = each.value
        self.at.append(at)
        self.found.append(samples)

    def fires(self, expression: str) -> bool:
        """Whether the expression is true at the last scrape."""
        return bool(_Reader(self, expression).comparison())

    def now(self, name: str, fits: Callable[[Labels], bool]) -> Vector:
        """The series of that name at the last scrape."""
        return {
            labels: v for (n, labels), v in self.found[-1].items() if n == name and fits(labels)
        }

    def window(
        self, name: str, fits: Callable[[Labels], bool], seconds: float
    ) -> dict[Labels, list[float]]:
        """Their values in the seconds before the last scrape, oldest first."""
        values: dict[Labels, list[float]] = {}
        for at, found in zip(self.at, self.found, strict=True):
            if at >= self.at[-1] - seconds:
                for (known, labels), value in found.items():
                    if known == name and fits(labels):
                        values.setdefault(labels, []).append(value)
        return values


class _Reader:
    """Reads one expression from left to right and evaluates it meanwhile."""

    def __init__(self, scraped: Scraped, text: str) -> None:
        self._scraped = scraped
        self._rest: list[tuple[str, str]] = []
        at = 0
        while at < len(text.rstrip()):
            found = _TOKEN.match(text, at)
            assert found is not None, text[at:]
            kind = str(found.lastgroup)
            self._rest.append((kind, found[kind]))
            at = found.end()

    def _next(self, wanted: str = "") -> str:
        _, text = self._rest.pop(0)
        assert wanted in ("", text), (wanted, text)
        return text

    def _peek(self, kind: str) -> bool:
        return bool(self._rest) and self._rest[0][0] == kind

    def comparison(self) -> Vector:
        """The part of the vector that compares so with the number."""
        vector, sign = self._vector(), self._next()
        than = self._number()
        assert not self._rest, self._rest
        keeps = {">": float.__gt__, "<": float.__lt__, "==": float.__eq__}[sign]
        return {labels: value for labels, value in vector.items() if keeps(float(value), than)}

    def _number(self) -> float:
        value = float(self._next())
        while self._rest and self._rest[0] == ("sign", "*"):
            self._next("*")
            value *= float(self._next())
        return value

    def _vector(self) -> Vector:
        name = self._next()
        match name:
            case "sum" | "max":
                return self._aggregated(sum if name == "sum" else max)
            case "increase" | "rate":
                return self._over_time(lambda values: values[-1] - values[0], at_least=2)
            case "min_over_time":
                return self._over_time(min, at_least=1)
            case "histogram_quantile":
                self._next("(")
                share = self._number()
                self._next(",")
                vector = self._vector()
                self._next(")")
                return {frozenset(): _quantile(share, vector)} if vector else {}
        return self._scraped.now(name, self._fits())

    def _aggregated(self, how: Callable[[list[float]], float]) -> Vector:
        by: list[str] = []
        if self._peek("name"):
            self._next("by")
            self._next("(")
            while (text := self._next()) != ")":
                by += [text] if text != "," else []
        self._next("(")
        vector = self._vector()
        self._next(")")
        groups: dict[Labels, list[float]] = {}
        for labels, value in vector.items():
            kept = frozenset((name, text) for name, text in labels if name in by)
            groups.setdefault(kept, []).append(value)
        return {labels: float(how(values)) for labels, values in groups.items()}

    def _over_time(self, how: Callable[[list[float]], float], at_least: int) -> Vector:
        self._next("(")
        name, fits = self._next(), self._fits()
        window = self._next()
        self._next(")")
        seconds = int(window[1:-2]) * _SECONDS[window[-2]]
        found = self._scraped.window(name, fits, seconds)
        return {labels: how(values) for labels, values in found.items() if len(values) >= at_least}

    def _fits(self) -> Callable[[Labels], bool]:
        matchers = _MATCHER.findall(self._next()) if self._peek("matchers") else []

        def fits(labels: Labels) -> bool:
            there = dict(labels)
            return all(_matches(there.get(name, ""), *how) for name, *how in matchers)

        return fits


def _matches(value: str, sign: str, wanted: str) -> bool:
    same = re.fullmatch(wanted, value) is not None if "~" in sign else value == wanted
    return same is not sign.startswith("!")


def _quantile(share: float, buckets: Vector) -> float:
    """As in Prometheus: linear within a bucket; above the last one, its lower bound."""
    by = sorted((float(dict(labels)["le"]), count) for labels, count in buckets.items())
    rank, below, before = share * by[-1][1], 0.0, 0.0
    for bound, count in by:
        if count >= rank and count > before:
            if bound == float("inf"):
                return below
            return below + (bound - below) * (rank - before) / (count - before)
        below, before = bound, count
    return float("nan")
