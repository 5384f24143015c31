"""The order tools against a real SQLite shop."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from bot.tools import ToolError
from bot.tools.web_shop import Shop
from tests.tools import Tools, context, preview, refund, run_and_summarise, use_tool

ADDRESS = {"street": "Rosenweg 5", "postal_code": "50674", "city": "Köln", "country": "Germany"}


class TestRefund:
    def test_effect_and_preview_show_the_amount_with_two_decimals(self, orders: Tools) -> None:
        """This holds however the amount was written."""
        tool = orders["refund_order"]
        for written in (40, "40", "40.0", 40.0):
            args = tool.arguments.model_validate(
                {"order_id": 1042, "amount": written, "reason": "damaged"}
            )
            assert tool.effect_sentence(args) == "Refund 40.00 EUR of order 1042"
            assert args.model_dump_json() == (
                '{"order_id":1042,"amount":"40.00","reason":"damaged","note":null}'
            )
        assert preview(tool, order_id=1042, amount=40, reason="damaged") == (
            "Order 1042 · Mara Lindqvist · delivered\nPaid 89.90 EUR, refunded 0.00 EUR → 40.00 EUR"
        )

    def test_the_outcome_says_what_was_refunded_and_what_is_left(self, orders: Tools) -> None:
        """This is for people; the model gets the result itself."""
        values = {"order_id": 1042, "amount": "30", "reason": "damaged"}
        told = run_and_summarise(orders["refund_order"], values)
        assert told == "Refunded 30.00 EUR of order 1042, 59.90 left"

    def test_one_call_pays_back_only_once(self, shop: Shop, orders: Tools) -> None:
        """Running the same call id again gives the same answer,
        even where a new refund would be refused.
        """
        first = refund(orders, "60.00")
        assert first == refund(orders, "60.00")
        assert first["left_to_refund"] == "29.90 EUR"
        assert shop.get_order(1042).refunded == Decimal("60.00")
        assert query_shop(shop, "SELECT key FROM event WHERE order_id = 1042 ORDER BY seq") == [
            (None,),
            ("call-1",),
        ]

    def test_a_call_id_with_other_arguments_is_refused(self, shop: Shop, orders: Tools) -> None:
        """Otherwise one refund could pass for another."""
        refund(orders, "10")
        with pytest.raises(ToolError, match="already did something else"):
            refund(orders, "11")
        with pytest.raises(ToolError, match="already did something else"):
            refund(orders, "10", order_id=1041)
        assert shop.get_order(1042).refunded == Decimal("10.00")

    def test_no_more_is_refunded_than_was_paid(self, shop: Shop, orders: Tools) -> None:
        """The rest can be refunded to the cent and not beyond; each refusal says why."""
        refund(orders, "40")
        with pytest.raises(ToolError, match=r"^Order 1042 has 49\.90 EUR left to refund\.$"):
            refund(orders, "49.91", "call-2")
        with pytest.raises(ToolError, match=r"has 49\.90 EUR left to refund"):
            preview(orders["refund_order"], order_id=1042, amount=50, reason="late")
        assert "refunded 40.00 EUR → 89.90 EUR" in preview(
            orders["refund_order"], order_id=1042, amount="49.90", reason="late"
        )
        refund(orders, "49.90", "call-3")
        with pytest.raises(ToolError, match="in full already"):
            refund(orders, "0.01", "call-4")
        with pytest.raises(ToolError, match="has not been paid"):
            refund(orders, "1", "call-5", order_id=1049)
        assert shop.get_order(1042).refundable_amount == 0

    def test_a_refused_refund_may_be_repeated_with_a_smaller_amount(
        self, shop: Shop, orders: Tools
    ) -> None:
        """Nothing is stored under the call id of a refused refund."""
        with pytest.raises(ToolError):
            refund(orders, "100")
        refund(orders, "5")
        assert shop.get_order(1042).refunded == Decimal("5.00")

    def test_refunds_at_the_same_time_stay_within_what_was_paid(
        self, shop: Shop, orders: Tools
    ) -> None:
        """Of sixteen refunds of 10.00 at once, eight fit into 89.90 and eight are refused."""
        ended = run_at_once(16, lambda number: refund(orders, "10", f"call-{number}"))
        assert sorted(isinstance(end, ToolError) for end in ended) == [False] * 8 + [True] * 8
        assert shop.get_order(1042).refunded == Decimal("80.00")

    def test_a_call_run_many_times_at_once_pays_back_once(self, shop: Shop, orders: Tools) -> None:
        """Eight racing runs of one call have one effect and one answer."""
        ended = run_at_once(8, lambda _: refund(orders, "20"))
        assert ended == [ended[0]] * 8
        assert shop.get_order(1042).refunded == Decimal("20.00")

    def test_a_refund_that_cannot_be_recorded_moves_no_money(
        self, shop: Shop, orders: Tools, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Payment and event are written in one transaction."""

        with closing(sqlite3.connect(shop.path)) as db:
            db.execute(
                "CREATE TRIGGER no BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'disk is "
                "gone'); END"
            )
        with pytest.raises(sqlite3.IntegrityError, match="disk is gone"):
            refund(orders, "20")
        assert shop.get_order(1042).refunded == 0

    @pytest.mark.parametrize(
        "change",
        [
            {"amount": 0},
            {"amount": "-1"},
            {"amount": "1.005"},
            {"amount": "NaN"},
            {"amount": "Infinity"},
            {"amount": "1000000.00"},
            {"reason": "because"},
            {"note": "x" * 501},
            {"order_id": 0},
            {"surprise": 1},
        ],
    )
    def test_the_type_refuses_invalid_refunds(self, orders: Tools, change: dict[str, Any]) -> None:
        """Values that are out of range, too long, unknown or no numbers do not reach the shop."""
        with pytest.raises(ValidationError):
            orders["refund_order"].arguments.model_validate(
                {"order_id": 1042, "amount": "40", "reason": "late", **change}
            )


class TestChangeAddress:
    def test_an_address_can_change_before_shipping(self, shop: Shop, orders: Tools) -> None:
        """It changes once per call; the customer is notified unless `notify` is off."""
        values = {"order_id": 1044, "address": ADDRESS}
        result = use_tool(orders["change_address"], values)
        assert result == use_tool(orders["change_address"], values)
        assert result["ships_to"] == "Rosenweg 5, 50674 Köln, Germany"
        assert result["notified"] == "jonas.brandt@example.com"
        assert shop.get_order(1044).address == ADDRESS
        quiet = {"order_id": 1043, "address": ADDRESS, "notify": False}
        assert "notified" not in use_tool(orders["change_address"], quiet, context("call-2"))

    def test_the_preview_shows_the_old_and_the_new_address(self, orders: Tools) -> None:
        """The approver can compare them."""
        assert preview(orders["change_address"], order_id=1044, address=ADDRESS).splitlines()[
            1:
        ] == [
            "Now: Lindenallee 23, 50968 Köln, Germany",
            "New: Rosenweg 5, 50674 Köln, Germany",
        ]

    def test_an_address_change_is_refused_after_shipping_or_if_the_same(
        self, shop: Shop, orders: Tools
    ) -> None:
        """The preview is refused after shipping, too."""
        with pytest.raises(
            ToolError, match=r"^Order 1045 is shipped; its address can no longer change\.$"
        ):
            use_tool(orders["change_address"], {"order_id": 1045, "address": ADDRESS})
        with pytest.raises(ToolError, match="already goes to that address"):
            use_tool(
                orders["change_address"],
                {"order_id": 1044, "address": shop.get_order(1044).address},
            )
        with pytest.raises(ToolError, match="is shipped"):
            preview(orders["change_address"], order_id=1045, address=ADDRESS)

    def test_each_field_of_an_address_has_its_own_error(self, orders: Tools) -> None:
        """The error says where in the arguments the field is."""
        bad = {"order_id": 1044, "address": {**ADDRESS, "postal_code": "!", "planet": "Mars"}}
        with pytest.raises(ValidationError) as error:
            orders["change_address"].arguments.model_validate(bad)
        assert {each["loc"] for each in error.value.errors()} == {
            ("address", "postal_code"),
            ("address", "planet"),
        }


class TestCancel:
    def test_cancelling_pays_back_and_restocks_once(self, shop: Shop, orders: Tools) -> None:
        """Whatever is left to refund is paid back; running the call again changes nothing."""
        before = count_stock(shop, "CANDLE")
        values = {"order_id": 1043, "reason": "changed her mind"}
        result = use_tool(orders["cancel_order"], values)
        assert result == use_tool(orders["cancel_order"], values)
        assert (result["refunded"], result["items_back_in_stock"]) == ("98.00 EUR", 3)
        assert shop.get_order(1043).status == "cancelled"
        assert shop.get_order(1043).refundable_amount == 0
        assert count_stock(shop, "CANDLE") == before + 2

    def test_cancelling_without_restocking_pays_back_only_the_rest(
        self, shop: Shop, orders: Tools
    ) -> None:
        """Damaged goods stay out of stock, and 20 EUR were refunded before."""
        refund(orders, "20", "call-0", order_id=1048)
        before = count_stock(shop, "MUG")
        result = use_tool(
            orders["cancel_order"], {"order_id": 1048, "reason": "damaged", "restock": False}
        )
        assert (result["refunded"], result["items_back_in_stock"]) == ("70.00 EUR", 0)
        assert count_stock(shop, "MUG") == before
        assert shop.get_order(1048).refunded == Decimal("90.00")

    def test_an_order_can_be_cancelled_after_a_full_refund(self, shop: Shop, orders: Tools) -> None:
        """There is nothing left to pay back."""
        refund(orders, "98.00", "call-0", order_id=1043)
        assert (
            use_tool(orders["cancel_order"], {"order_id": 1043, "reason": "asked for"})["refunded"]
            == "0.00 EUR"
        )
        assert shop.get_order(1043).status == "cancelled"

    def test_an_unpaid_order_can_be_cancelled(self, shop: Shop, orders: Tools) -> None:
        """There is nothing to pay back."""
        assert (
            use_tool(orders["cancel_order"], {"order_id": 1049, "reason": "test order"})["refunded"]
            == "0.00 EUR"
        )
        assert shop.get_order(1049).status == "cancelled"

    @pytest.mark.parametrize(
        ("order_id", "words"),
        [
            (1045, "is shipped; only orders that"),
            (1042, "is delivered; only"),
            (1034, "is cancelled already"),
        ],
    )
    def test_shipped_and_cancelled_orders_cannot_be_cancelled(
        self, orders: Tools, order_id: int, words: str
    ) -> None:
        """The preview refuses it, too, so nobody is asked."""
        with pytest.raises(ToolError, match=words):
            use_tool(orders["cancel_order"], {"order_id": order_id, "reason": "asked for"})
        with pytest.raises(ToolError, match=words):
            preview(orders["cancel_order"], order_id=order_id, reason="asked for")

    def test_the_preview_says_what_is_paid_back_and_restocked(self, orders: Tools) -> None:
        """The approver sees money and goods."""
        assert preview(orders["cancel_order"], order_id=1043, reason="asked for").splitlines()[
            1:
        ] == [
            "98.00 EUR will be paid back",
            "1 × Wall clock, 2 × Beeswax candle: go back into stock",
        ]

    def test_a_refund_and_a_cancellation_at_once_pay_back_only_once(
        self, shop: Shop, orders: Tools
    ) -> None:
        """It does not matter which of them comes first."""
        run_at_once(
            2,
            lambda number: (
                refund(orders, "30", "call-r", order_id=1043)
                if number
                else use_tool(
                    orders["cancel_order"],
                    {"order_id": 1043, "reason": "asked for"},
                    context("call-c"),
                )
            ),
        )
        order = shop.get_order(1043)
        assert order.status == "cancelled"
        assert order.refunded == order.paid


def query_shop(shop: Shop, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Query the shop's file."""
    with closing(sqlite3.connect(shop.path)) as db:
        return db.execute(query, values).fetchall()


def count_stock(shop: Shop, sku: str) -> int:
    """Count the pieces of a product that the shop has."""
    [(found,)] = query_shop(shop, "SELECT stock FROM product WHERE sku = ?", sku)
    return int(found)


def run_at_once(count: int, act: Callable[[int], Any]) -> list[Any]:
    """Call `act` with 0 … count-1 on as many threads at once.

    Return their results, or the ToolErrors they raised.
    """
    barrier = threading.Barrier(count)

    def one(number: int) -> Any:
        barrier.wait(10)
        try:
            return act(number)
        except ToolError as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return [
            future.result(30) for future in [pool.submit(one, number) for number in range(count)]
        ]
