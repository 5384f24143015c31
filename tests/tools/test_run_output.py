"""What a tool's result becomes: text for the model, a line for the card."""

from __future__ import annotations

import enum
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from bot.tools.runner import Raised, Ran, output, summary
from tests.tools.harness import Nothing, making, run


class TestOutput:
    def test_text_stays_as_it_is(self, executor: ThreadPoolExecutor) -> None:
        """What a tool says in words reaches the model in the same words."""
        assert run(making("two\nlines"), executor) == Ran("two\nlines", "two")

    def test_values_become_compact_json(self) -> None:
        """Decimals keep their places, times are ISO, names keep their letters."""

        class Colour(enum.Enum):
            RED = "red"

        class Row(BaseModel):
            amount: Decimal

        result = {
            "total": Decimal("40.00"),
            "at": datetime(2026, 11, 20, 12, 0, tzinfo=UTC),
            "rows": [Row(amount=Decimal("1.50"))],
            "name": "Élodie",
            "colour": Colour.RED,
            "nan": float("nan"),
        }
        assert output(result, 1000) == (
            '{"total":"40.00","at":"2026-11-20T12:00:00Z","rows":[{"amount":"1.50"}],"name":"Élodie",'
            '"colour":"red","nan":"NaN"}'
        )

    def test_nothing_is_said_in_words(self) -> None:
        """A tool that returns nothing still tells the model that it ran."""
        assert (output(None, 100), output(True, 100), output(7, 100)) == ("Done.", "true", "7")

    def test_is_bounded_and_says_so(self, executor: ThreadPoolExecutor) -> None:
        """A long result is cut at the tool's limit, and the model is told how much is missing."""
        ran = run(making("x" * 5000, max_output=1000), executor)
        assert isinstance(ran, Ran)
        assert len(ran.output) <= 1000
        assert ran.output.endswith("x\n[… 4060 more characters not shown]")
        exact = run(making("x" * 1000, max_output=1000), executor)
        assert isinstance(exact, Ran)
        assert exact.output == "x" * 1000

    def test_a_result_that_cannot_be_shown_is_still_a_success(
        self, executor: ThreadPoolExecutor
    ) -> None:
        """The effect happened, so an odd result must not be told as a failure."""
        circle: list[Any] = []
        circle.append(circle)
        ran = run(making([circle]), executor)
        assert isinstance(ran, Ran)
        assert "cannot be shown" in ran.output

    def test_what_a_database_would_refuse_is_replaced(self) -> None:
        """A lone surrogate or NUL in a tool's text cannot break the row it is stored in."""
        assert output("a\ud800b\0c", 100) == "a?b\ufffdc"


class TestSummary:
    def test_reads_as_a_line(self) -> None:
        """Keys and values in one line; nested things in short."""
        result = {
            "order_id": 1042,
            "refunded": "40.00 EUR",
            "ok": True,
            "note": None,
            "items": [1, 2],
            "at": {"a": 1},
        }
        assert (
            summary(result)
            == "order id: 1042 · refunded: 40.00 EUR · ok: yes · note: — · items: 2 entries · "
            "at: a 1"
        )
        assert summary("\n first line \nsecond") == "first line"
        assert summary([1]) == "1 entry"
        assert summary(None) == "Done."

    def test_is_at_most_200_characters(self) -> None:
        """The card has a fixed place for it."""
        assert len(summary("word " * 100)) == 200
        assert summary("word " * 100).endswith("…")

    def test_secret_arguments_are_masked_in_results(self, executor: ThreadPoolExecutor) -> None:
        """A secret argument that comes back in a result or error is masked on the card.

        It is not for the model.
        """
        secret = Nothing(token="tok-123")
        ran = run(making({"token": "other", "used": "tok-123"}, secret={"token"}), executor, secret)
        assert ran == Ran('{"token":"other","used":"tok-123"}', "token: •••••••• · used: ••••••••")
        raised = run(making(RuntimeError("tok-123 is wrong"), secret={"token"}), executor, secret)
        assert raised == Raised("RuntimeError: •••••••• is wrong", certain=False)
