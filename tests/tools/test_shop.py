"""The demo's shop, and the tools that read it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import get_args

import pytest

from bot.tools import ToolError
from bot.tools.web_shop import OrderStatus, Shop, convert_euros_to_cents
from tests.tools import Tools, preview, refund, use_tool


class TestShop:
    def test_the_shop_has_the_orders_of_the_demos_script(self, shop: Shop) -> None:
        """The demo's script relies on these four orders."""
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

    def test_orders_have_every_status_and_plausible_sums(self, shop: Shop) -> None:
        """Nobody got back more than they paid, and whoever paid has paid the total."""
        orders, count = shop.search(None, None, 100)
        assert count == len(orders) == 25
        assert {order.status for order in orders} == set(get_args(OrderStatus))
        assert all(order.refunded <= order.paid for order in orders)
        assert all(order.paid in (0, order.total) for order in orders)
        assert len({order.customer for order in orders}) == 12

    def test_creating_the_shop_again_keeps_refunds(self, shop: Shop, orders: Tools) -> None:
        """The demo creates it at each start."""
        refund(orders, "10")
        Shop(shop.path).create_database()
        assert shop.get_order(1042).refunded == Decimal("10.00")

    def test_the_shop_may_be_created_by_several_at_once(self, tmp_path: Path) -> None:
        """Four first starts at once end with one set of data."""
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(Shop(tmp_path / "new.db").create_database) for _ in range(4)]:
                done.result(20)
        assert Shop(tmp_path / "new.db").search(None, None, 1)[1] == 25

    def test_a_fraction_of_a_cent_is_an_error(self) -> None:
        """It is never rounded."""
        assert convert_euros_to_cents(Decimal("89.90")) == 8990
        with pytest.raises(ValueError, match="not a whole number"):
            convert_euros_to_cents(Decimal("0.005"))


class TestReads:
    def test_an_order_is_looked_up_in_plain_words(self, orders: Tools) -> None:
        """Items, payments and address read as a person would write them."""
        found = use_tool(orders["look_up_order"], {"order_id": 1042})
        assert found["items"] == ["1 × Reading lamp", "2 × Stoneware mug"]
        assert (found["payments"], found["left_to_refund"]) == ("89.90 EUR", "89.90 EUR")
        assert found["ships_to"] == "Storgatan 14, 411 24 Göteborg, Sweden"

    def test_search_ignores_case_in_any_alphabet(self, orders: Tools) -> None:
        """The name has a letter beyond ASCII."""
        found = use_tool(orders["search_orders"], {"customer": "ÉLODIE"})
        assert {order["customer"] for order in found["orders"]} == {"Élodie Garnier"}

    def test_search_counts_all_matches_and_shows_the_newest(self, orders: Tools) -> None:
        """The limit is two here."""
        found = use_tool(orders["search_orders"], {"status": "processing", "limit": 2})
        assert (found["matching"], found["shown"]) == (6, 2)
        assert [order["order_id"] for order in found["orders"]] == [1054, 1053]

    def test_search_takes_wildcards_literally(self, orders: Tools) -> None:
        """A percent sign does not match everybody."""
        assert use_tool(orders["search_orders"], {"customer": "%"})["matching"] == 0

    def test_an_unknown_order_is_refused_by_its_number(self, orders: Tools) -> None:
        """The model is told before anybody is asked."""
        with pytest.raises(ToolError, match=r"^There is no order 7\.$"):
            use_tool(orders["look_up_order"], {"order_id": 7})
        with pytest.raises(ToolError, match=r"^There is no order 7\.$"):
            preview(orders["refund_order"], order_id=7, amount="1", reason="late")
