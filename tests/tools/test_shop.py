"""The demo's shop, and the tools that only read it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import get_args

import pytest

from bot.tools import ToolError
from bot.tools.web_shop import OrderStatus, Shop, convert_euros_to_cents
from tests.tools import Tools, preview, refund, use


class TestShop:
    def test_has_the_orders_of_the_stories(self, shop: Shop) -> None:
        """The demo's script can count on these four orders."""
        mara = shop.get_order(1042)
        assert (mara.customer, mara.status, mara.paid, mara.refunded) == (
            "Mara Lindqvist",
            "delivered",
            Decimal("89.90"),
            Decimal(0),
        )
        assert [shop.get_order(number).status for number in (1043, 1044, 1045)] == [
            "processing",
            "processing",
            "shipped",
        ]
        assert shop.get_order(1045).paid == Decimal("54.00")

    def test_shows_every_status_and_adds_up(self, shop: Shop) -> None:
        """Each status occurs, and nobody was paid back more than they paid.

        What was paid is the order's total.
        """
        orders, count = shop.search(None, None, 100)
        assert count == len(orders) == 25
        assert {order.status for order in orders} == set(get_args(OrderStatus))
        assert all(order.refunded <= order.paid for order in orders)
        assert all(order.paid in (0, order.total) for order in orders)
        assert len({order.customer for order in orders}) == 12

    def test_creating_again_keeps_what_happened(self, shop: Shop, orders: Tools) -> None:
        """A restart of the demo does not undo a refund."""
        refund(orders, "10")
        Shop(shop.path).create_database()
        assert shop.get_order(1042).refunded == Decimal("10.00")

    def test_two_processes_may_create_it_at_once(self, tmp_path: Path) -> None:
        """Racing first starts end with one set of data."""
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(Shop(tmp_path / "new.db").create_database) for _ in range(4)]:
                done.result(20)
        assert Shop(tmp_path / "new.db").search(None, None, 1)[1] == 25

    def test_a_part_of_a_cent_is_never_dropped(self) -> None:
        """Money that is no whole number of cents is an error, not a rounding."""
        assert convert_euros_to_cents(Decimal("89.90")) == 8990
        with pytest.raises(ValueError, match="not a whole number"):
            convert_euros_to_cents(Decimal("0.005"))


class TestReads:
    def test_looking_up_one_order(self, orders: Tools) -> None:
        """One order, in the words a person would want."""
        found = use(orders["look_up_order"], {"order_id": 1042})
        assert found["items"] == ["1 × Reading lamp", "2 × Stoneware mug"]
        assert (found["payments"], found["left_to_refund"]) == ("89.90 EUR", "89.90 EUR")
        assert found["ships_to"] == "Storgatan 14, 411 24 Göteborg, Sweden"

    def test_search_knows_letters_beyond_ascii(self, orders: Tools) -> None:
        """Names are compared without case in any alphabet."""
        found = use(orders["search_orders"], {"customer": "ÉLODIE"})
        assert {order["customer"] for order in found["orders"]} == {"Élodie Garnier"}

    def test_search_counts_what_it_does_not_show(self, orders: Tools) -> None:
        """A short list says how many there are, the newest first."""
        found = use(orders["search_orders"], {"status": "processing", "limit": 2})
        assert (found["matching"], found["shown"]) == (6, 2)
        assert [order["order_id"] for order in found["orders"]] == [1054, 1053]

    def test_search_takes_wildcards_literally(self, orders: Tools) -> None:
        """A percent sign is not everybody."""
        assert use(orders["search_orders"], {"customer": "%"})["matching"] == 0

    def test_an_unknown_order_is_named(self, orders: Tools) -> None:
        """The model hears which number does not exist, before anybody is asked."""
        with pytest.raises(ToolError, match=r"^There is no order 7\.$"):
            use(orders["look_up_order"], {"order_id": 7})
        with pytest.raises(ToolError, match=r"^There is no order 7\.$"):
            preview(orders["refund_order"], order_id=7, amount="1", reason="late")
