"""A tool's result: its text for the model and its summary for people."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from pydantic import BaseModel

from bot.tools.runner import ToolFailure, ToolSuccess, build_tool_step, format_result_for_model
from storage.models import Call
from tests.tools.harness import Nothing, make_tool, run_one


class TestOutput:
    def test_a_text_reaches_the_model_unchanged(self, executor: ThreadPoolExecutor) -> None:
        """People read its first line."""
        assert run_one(make_tool("two\nlines"), executor) == ToolSuccess("two\nlines", "two")

    def test_values_become_compact_json(self) -> None:
        """Decimals keep their places, times are ISO 8601, letters are not escaped."""

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
        assert format_result_for_model(result, 1000) == (
            '{"total":"40.00","at":"2026-11-20T12:00:00Z","rows":[{"amount":"1.50"}],"name":"Élodie",'
            '"colour":"red","nan":"NaN"}'
        )

    def test_no_result_is_told_to_the_model_as_done(self) -> None:
        """Booleans and numbers are told as JSON."""
        assert (
            format_result_for_model(None, 100),
            format_result_for_model(True, 100),
            format_result_for_model(7, 100),
        ) == (
            "Done.",
            "true",
            "7",
        )

    def test_a_long_result_is_cut_at_the_tools_limit(self, executor: ThreadPoolExecutor) -> None:
        """The model is told how much is missing."""
        ran = run_one(make_tool("x" * 5000, max_output=1000), executor)
        assert isinstance(ran, ToolSuccess)
        assert len(ran.output) <= 1000
        assert ran.output.endswith("x\n[… 4060 more characters not shown]")
        exact = run_one(make_tool("x" * 1000, max_output=1000), executor)
        assert isinstance(exact, ToolSuccess)
        assert exact.output == "x" * 1000

    def test_a_result_that_cannot_be_shown_is_still_a_success(
        self, executor: ThreadPoolExecutor
    ) -> None:
        """The effect happened, so it must not be reported as a failure."""
        circle: list[Any] = []
        circle.append(circle)
        ran = run_one(make_tool([circle]), executor)
        assert isinstance(ran, ToolSuccess)
        assert "cannot be shown" in ran.output

    def test_characters_that_a_database_refuses_are_replaced(self) -> None:
        """A lone surrogate or NUL cannot break the row that the result is stored in."""
        assert format_result_for_model("a\ud800b\0c", 100) == "a?b\ufffdc"


class TestSummary:
    """The line for people after a tool ran."""

    def summarise(self, executor: ThreadPoolExecutor, result: Any, **options: Any) -> str:
        """Run a tool that returns `result` and return its summary."""
        secret = Nothing(token="tok-123")
        ran = run_one(make_tool(result, **options), executor, secret)
        assert isinstance(ran, ToolSuccess)
        return ran.summary

    def test_the_summary_is_the_sentence_of_the_tools_outcome_function(
        self, executor: ThreadPoolExecutor
    ) -> None:
        """The sentence is made from arguments and result, put on one line and cut."""
        result = {"left": 59}
        told = self.summarise(executor, result, outcome=lambda _args, done: f"{done['left']}\nleft")
        assert told == "59 left"
        long = self.summarise(executor, result, outcome=lambda _args, _done: "word " * 100)
        assert len(long) == 200
        assert long.endswith("…")

    @pytest.mark.parametrize("bad", [lambda _args, done: done["gone"], lambda _args, _done: None])
    def test_an_outcome_function_that_fails_gives_no_summary(
        self, executor: ThreadPoolExecutor, bad: Callable[..., Any]
    ) -> None:
        """The call has run all the same; people read its effect instead."""
        assert self.summarise(executor, {"left": 59}, outcome=bad) == ""

    def test_an_outcome_function_with_other_parameters_is_refused(self) -> None:
        """Registration refuses it and names the tool."""
        with pytest.raises(TypeError, match=r"tool attempt: the outcome takes \(args, result\)"):
            make_tool({}, outcome=lambda done: done)

    def test_a_validation_error_is_reported_without_its_data(
        self, executor: ThreadPoolExecutor
    ) -> None:
        """People do not read Pydantic's text either."""

        def tripped() -> None:
            Nothing.model_validate({"token": [1]})

        raised = run_one(make_tool(tripped), executor)
        assert isinstance(raised, ToolFailure)
        assert raised.message == "The tool worked with data of the wrong form (1 value)."

    def test_a_text_is_summarised_by_its_first_line(self, executor: ThreadPoolExecutor) -> None:
        """Results that are no text have no summary."""
        assert self.summarise(executor, "\n first line \nsecond") == "first line"
        for silent in ({"order_id": 1042}, [1, 2], None, True):
            assert self.summarise(executor, silent) == ""

    def test_secret_arguments_are_masked_for_people_only(
        self, executor: ThreadPoolExecutor
    ) -> None:
        """A secret that comes back in a result or an error is not masked for the model."""
        secret = Nothing(token="tok-123")
        ran = run_one(make_tool("used tok-123", secret={"token"}), executor, secret)
        assert ran == ToolSuccess("used tok-123", "used ••••••••")
        told = self.summarise(
            executor, {}, secret={"token"}, outcome=lambda args, _done: args.token
        )
        assert told == "••••••••"
        raised = run_one(
            make_tool(RuntimeError("tok-123 is wrong"), secret={"token"}), executor, secret
        )
        assert raised == ToolFailure("RuntimeError: •••••••• is wrong", certain=False)

    @pytest.mark.parametrize(
        "secret",
        ["tok  123", "tok\n123", 'it\'s "so"', "a\\b", "päss wörd/?&", "a+b c", "x.*y", "\ttab"],
    )
    def test_a_secret_is_masked_however_it_is_written(
        self, executor: ThreadPoolExecutor, secret: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Quoted by Python or JSON, in a URL, with other whitespace; in the log as well."""
        written = [secret, repr(secret), json.dumps(secret), json.dumps(secret, ensure_ascii=False)]
        written += [quote(secret, safe=""), quote_plus(secret), " ".join(secret.split())]
        for text in written:
            failing = make_tool(KeyError(f"got {text} here"), secret={"token"})
            raised = run_one(failing, executor, Nothing(token=secret))
            assert isinstance(raised, ToolFailure)
            assert "••••••••" in raised.message, text
            assert text.strip("\"'") not in raised.message

        def fails(args: Nothing) -> str:
            raise ValueError(f"not {args.token!r}")

        step = replace(make_tool({}, secret={"token"}), step=fails)
        assert build_tool_step(step, Nothing(token=secret), Call(id="c", tool="t")).doing == ""
        assert "••••••••" in caplog.text
        assert repr(secret)[1:-1] not in caplog.text
