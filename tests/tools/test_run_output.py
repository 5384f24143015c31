"""What a tool's result becomes: text for the model, a line for people."""

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
from tests.tools.harness import Nothing, making, run


class TestOutput:
    def test_text_stays_as_it_is(self, executor: ThreadPoolExecutor) -> None:
        """What a tool says in words reaches the model in the same words."""
        assert run(making("two\nlines"), executor) == ToolSuccess("two\nlines", "two")

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
        assert format_result_for_model(result, 1000) == (
            '{"total":"40.00","at":"2026-11-20T12:00:00Z","rows":[{"amount":"1.50"}],"name":"Élodie",'
            '"colour":"red","nan":"NaN"}'
        )

    def test_nothing_is_said_in_words(self) -> None:
        """A tool that returns nothing still tells the model that it ran."""
        assert (
            format_result_for_model(None, 100),
            format_result_for_model(True, 100),
            format_result_for_model(7, 100),
        ) == (
            "Done.",
            "true",
            "7",
        )

    def test_is_bounded_and_says_so(self, executor: ThreadPoolExecutor) -> None:
        """A long result is cut at the tool's limit, and the model is told how much is missing."""
        ran = run(making("x" * 5000, max_output=1000), executor)
        assert isinstance(ran, ToolSuccess)
        assert len(ran.output) <= 1000
        assert ran.output.endswith("x\n[… 4060 more characters not shown]")
        exact = run(making("x" * 1000, max_output=1000), executor)
        assert isinstance(exact, ToolSuccess)
        assert exact.output == "x" * 1000

    def test_a_result_that_cannot_be_shown_is_still_a_success(
        self, executor: ThreadPoolExecutor
    ) -> None:
        """The effect happened, so an odd result must not be told as a failure."""
        circle: list[Any] = []
        circle.append(circle)
        ran = run(making([circle]), executor)
        assert isinstance(ran, ToolSuccess)
        assert "cannot be shown" in ran.output

    def test_what_a_database_would_refuse_is_replaced(self) -> None:
        """A lone surrogate or NUL in a tool's text cannot break the row it is stored in."""
        assert format_result_for_model("a\ud800b\0c", 100) == "a?b\ufffdc"


class TestSummary:
    """What people are told once it ran."""

    def told(self, executor: ThreadPoolExecutor, result: Any, **options: Any) -> str:
        """The line for people of a tool that returns `result`."""
        secret = Nothing(token="tok-123")
        ran = run(making(result, **options), executor, secret)
        assert isinstance(ran, ToolSuccess)
        return ran.summary

    def test_a_tool_states_its_outcome(self, executor: ThreadPoolExecutor) -> None:
        """The sentence is made from arguments and result, on one line, and bounded."""
        result = {"left": 59}
        told = self.told(executor, result, outcome=lambda _args, done: f"{done['left']}\nleft")
        assert told == "59 left"
        long = self.told(executor, result, outcome=lambda _args, _done: "word " * 100)
        assert len(long) == 200
        assert long.endswith("…")

    @pytest.mark.parametrize("bad", [lambda _args, done: done["gone"], lambda _args, _done: None])
    def test_a_sentence_that_fails_is_none(
        self, executor: ThreadPoolExecutor, bad: Callable[..., Any]
    ) -> None:
        """What ran has run; people are told the effect instead."""
        assert self.told(executor, {"left": 59}, outcome=bad) == ""

    def test_an_outcome_that_cannot_be_called_is_no_tool(self) -> None:
        """The start refuses it, and names the tool."""
        with pytest.raises(TypeError, match=r"tool attempt: the outcome takes \(args, result\)"):
            making({}, outcome=lambda done: done)

    def test_no_validators_prose_reaches_people(self, executor: ThreadPoolExecutor) -> None:
        """A tool that met data of another form is told in a sentence, without what it met."""

        def tripped() -> None:
            Nothing.model_validate({"token": [1]})

        raised = run(making(tripped), executor)
        assert isinstance(raised, ToolFailure)
        assert raised.message == "The tool worked with data of the wrong form (1 value)."

    def test_only_words_are_for_people(self, executor: ThreadPoolExecutor) -> None:
        """The first line of a text is; keys and values, lists and nothing at all are not."""
        assert self.told(executor, "\n first line \nsecond") == "first line"
        for silent in ({"order_id": 1042}, [1, 2], None, True):
            assert self.told(executor, silent) == ""

    def test_secret_arguments_are_masked_in_results(self, executor: ThreadPoolExecutor) -> None:
        """A secret argument that comes back in a result or error is masked for people.

        It is not for the model.
        """
        secret = Nothing(token="tok-123")
        ran = run(making("used tok-123", secret={"token"}), executor, secret)
        assert ran == ToolSuccess("used tok-123", "used ••••••••")
        told = self.told(executor, {}, secret={"token"}, outcome=lambda args, _done: args.token)
        assert told == "••••••••"
        raised = run(making(RuntimeError("tok-123 is wrong"), secret={"token"}), executor, secret)
        assert raised == ToolFailure("RuntimeError: •••••••• is wrong", certain=False)

    @pytest.mark.parametrize(
        "secret",
        ["tok  123", "tok\n123", 'it\'s "so"', "a\\b", "päss wörd/?&", "a+b c", "x.*y", "\ttab"],
    )
    def test_secrets_are_masked_however_they_are_written(
        self, executor: ThreadPoolExecutor, secret: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Quoted as Python or JSON does, in an address, with other blanks; in the log, too."""
        written = [secret, repr(secret), json.dumps(secret), json.dumps(secret, ensure_ascii=False)]
        written += [quote(secret, safe=""), quote_plus(secret), " ".join(secret.split())]
        for text in written:
            failing = making(KeyError(f"got {text} here"), secret={"token"})
            raised = run(failing, executor, Nothing(token=secret))
            assert isinstance(raised, ToolFailure)
            assert "••••••••" in raised.message, text
            assert text.strip("\"'") not in raised.message

        def fails(args: Nothing) -> str:
            raise ValueError(f"not {args.token!r}")

        step = replace(making({}, secret={"token"}), step=fails)
        assert build_tool_step(step, Nothing(token=secret), Call(id="c", tool="t")).doing == ""
        assert "••••••••" in caplog.text
        assert repr(secret)[1:-1] not in caplog.text
