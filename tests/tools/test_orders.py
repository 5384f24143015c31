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
from tests.tools import Tools, context, outcome_after, preview, refund, use

ADDRESS = {"street": "Rosenweg 5", "postal_code": "50674", "city": "Köln", "country": "Germany"}


class TestRefund:
    def test_says_what_it_will_do(self, orders: Tools) -> None:
        """Effect and preview speak in two places, however the amount was written."""
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

    def test_says_what_it_came_to(self, orders: Tools) -> None:
        """People read what happened and what is left, not what the model is given."""
        values = {"order_id": 1042, "amount": "30", "reason": "damaged"}
        told = outcome_after(orders["refund_order"], values)
        assert told == "Refunded 30.00 EUR of order 1042, 59.90 left"

    def test_pays_back_once_per_call(self, shop: Shop, orders: Tools) -> None:
        """The same call id again gives the same answer.

        It does even where a new refund would be refused.
        """
        first = refund(orders, "60.00")
        assert first == refund(orders, "60.00")
        assert first["left_to_refund"] == "29.90 EUR"
        assert shop.get_order(1042).refunded == Decimal("60.00")
        assert rows(shop, "SELECT key FROM event WHERE order_id = 1042 ORDER BY seq") == [
            (None,),
            ("call-1",),
        ]

    def test_a_call_id_with_other_arguments_is_refused(self, shop: Shop, orders: Tools) -> None:
        """A repeated id does not pass off one refund for another."""
        refund(orders, "10")
        with pytest.raises(ToolError, match="already did something else"):
            refund(orders, "11")
        with pytest.raises(ToolError, match="already did something else"):
            refund(orders, "10", order_id=1041)
        assert shop.get_order(1042).refunded == Decimal("10.00")

    def test_never_more_than_was_paid(self, shop: Shop, orders: Tools) -> None:
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

    def test_a_refused_refund_leaves_its_key_free(self, shop: Shop, orders: Tools) -> None:
        """A refusal is no event: nothing is stored under its key."""
        with pytest.raises(ToolError):
            refund(orders, "100")
        refund(orders, "5")
        assert shop.get_order(1042).refunded == Decimal("5.00")

    def test_many_at_once_stay_within_the_total(self, shop: Shop, orders: Tools) -> None:
        """Sixteen refunds of 10.00 at the same moment: eight fit into 89.90, eight are refused."""
        ended = together(16, lambda number: refund(orders, "10", f"call-{number}"))
        assert sorted(isinstance(end, ToolError) for end in ended) == [False] * 8 + [True] * 8
        assert shop.get_order(1042).refunded == Decimal("80.00")

    def test_the_same_call_many_times_at_once(self, shop: Shop, orders: Tools) -> None:
        """Eight racing runs of one call have one effect and one answer."""
        ended = together(8, lambda _: refund(orders, "20"))
        assert ended == [ended[0]] * 8
        assert shop.get_order(1042).refunded == Decimal("20.00")

    def test_a_crash_before_the_commit_leaves_nothing(
        self, shop: Shop, orders: Tools, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Payment and key are one transaction.

        When the event cannot be written the money has not moved.
        """
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
    def test_odd_values_never_reach_the_shop(self, orders: Tools, change: dict[str, Any]) -> None:
        """What is out of range, too long, unknown or no number is refused by the type."""
        with pytest.raises(ValidationError):
            orders["refund_order"].arguments.model_validate(
                {"order_id": 1042, "amount": "40", "reason": "late", **change}
            )


class TestChangeAddress:
    def test_an_address_changes_before_shipping(self, shop: Shop, orders: Tools) -> None:
        """The order goes elsewhere, once per call, and the customer is told.

        They are not where that was switched off.
        """
        values = {"order_id": 1044, "address": ADDRESS}
        result = use(orders["change_address"], values)
        assert result == use(orders["change_address"], values)
        assert result["ships_to"] == "Rosenweg 5, 50674 Köln, Germany"
        assert result["notified"] == "jonas.brandt@example.com"
        assert shop.get_order(1044).address == ADDRESS
        quiet = {"order_id": 1043, "address": ADDRESS, "notify": False}
        assert "notified" not in use(orders["change_address"], quiet, context("call-2"))

    def test_card_shows_old_and_new(self, orders: Tools) -> None:
        """The approver sees where it went before."""
        assert preview(orders["change_address"], order_id=1044, address=ADDRESS).splitlines()[
            1:
        ] == [
            "Now: Lindenallee 23, 50968 Köln, Germany",
            "New: Rosenweg 5, 50674 Köln, Germany",
        ]

    def test_what_no_address_change_may(self, shop: Shop, orders: Tools) -> None:
        """Not after shipping, and not to where it goes anyway."""
        with pytest.raises(
            ToolError, match=r"^Order 1045 is shipped; its address can no longer change\.$"
        ):
            use(orders["change_address"], {"order_id": 1045, "address": ADDRESS})
        with pytest.raises(ToolError, match="already goes to that address"):
            use(
                orders["change_address"],
                {"order_id": 1044, "address": shop.get_order(1044).address},
            )
        with pytest.raises(ToolError, match="is shipped"):
            preview(orders["change_address"], order_id=1045, address=ADDRESS)

    def test_the_address_is_checked(self, orders: Tools) -> None:
        """A nested field has its own error, with its place."""
        bad = {"order_id": 1044, "address": {**ADDRESS, "postal_code": "!", "planet": "Mars"}}
        with pytest.raises(ValidationError) as error:
            orders["change_address"].arguments.model_validate(bad)
        assert {each["loc"] for each in error.value.errors()} == {
            ("address", "postal_code"),
            ("address", "planet"),
        }


class TestCancel:
    def test_pays_back_and_restocks(self, shop: Shop, orders: Tools) -> None:
        """All that is left is refunded, the items go back, and a repeat changes nothing."""
        before = stock(shop, "CANDLE")
        values = {"order_id": 1043, "reason": "changed her mind"}
        result = use(orders["cancel_order"], values)
        assert result == use(orders["cancel_order"], values)
        assert (result["refunded"], result["items_back_in_stock"]) == ("98.00 EUR", 3)
        assert shop.get_order(1043).status == "cancelled"
        assert shop.get_order(1043).refundable_amount == 0
        assert stock(shop, "CANDLE") == before + 2

    def test_damaged_goods_stay_out_of_stock(self, shop: Shop, orders: Tools) -> None:
        """Damaged goods stay out of stock; a part refunded before is not paid twice."""
        refund(orders, "20", "call-0", order_id=1048)
        before = stock(shop, "MUG")
        result = use(
            orders["cancel_order"], {"order_id": 1048, "reason": "damaged", "restock": False}
        )
        assert (result["refunded"], result["items_back_in_stock"]) == ("70.00 EUR", 0)
        assert stock(shop, "MUG") == before
        assert shop.get_order(1048).refunded == Decimal("90.00")

    def test_after_a_full_refund(self, shop: Shop, orders: Tools) -> None:
        """Nothing is left to pay back: the order is cancelled all the same."""
        refund(orders, "98.00", "call-0", order_id=1043)
        assert (
            use(orders["cancel_order"], {"order_id": 1043, "reason": "asked for"})["refunded"]
            == "0.00 EUR"
        )
        assert shop.get_order(1043).status == "cancelled"

    def test_an_unpaid_order_can_be_cancelled(self, shop: Shop, orders: Tools) -> None:
        """An order nobody paid can be cancelled, with nothing to pay back."""
        assert (
            use(orders["cancel_order"], {"order_id": 1049, "reason": "test order"})["refunded"]
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
    def test_what_no_cancellation_may(self, orders: Tools, order_id: int, words: str) -> None:
        """What has left the warehouse, or is cancelled, stays as it is, and nobody is asked."""
        with pytest.raises(ToolError, match=words):
            use(orders["cancel_order"], {"order_id": order_id, "reason": "asked for"})
        with pytest.raises(ToolError, match=words):
            preview(orders["cancel_order"], order_id=order_id, reason="asked for")

    def test_card_says_what_follows(self, orders: Tools) -> None:
        """The approver sees the money and the goods."""
        assert preview(orders["cancel_order"], order_id=1043, reason="asked for").splitlines()[
            1:
        ] == [
            "98.00 EUR will be paid back",
            "1 × Wall clock, 2 × Beeswax candle: go back into stock",
        ]

    def test_refund_and_cancel_race(self, shop: Shop, orders: Tools) -> None:
        """Whichever comes first, what was paid is paid back once."""
        together(
            2,
            lambda number: (
                refund(orders, "30", "call-r", order_id=1043)
                if number
                else use(
                    orders["cancel_order"],
                    {"order_id": 1043, "reason": "asked for"},
                    context("call-c"),
                )
            ),
        )
        order = shop.get_order(1043)
        assert order.status == "cancelled"
        assert order.refunded == order.paid


def rows(shop: Shop, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """What the shop's file holds."""
    with closing(sqlite3.connect(shop.path)) as db:
        return db.execute(query, values).fetchall()


def stock(shop: Shop, sku: str) -> int:
    """How many pieces of a product the shop has."""
    [(found,)] = rows(shop, "SELECT stock FROM product WHERE sku = ?", sku)
    return int(found)


def together(count: int, act: Callable[[int], Any]) -> list[Any]:
    """Call `act` with 0 … count-1 on as many threads at once.

    Results, or the ToolErrors they raised.
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
