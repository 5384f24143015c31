"""An order of the demo's web shop, and how it is read.

Money is whole cents in the database and Decimal outside.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from bot.tools import ToolError

OrderStatus = Literal["pending", "processing", "shipped", "delivered", "returned", "cancelled"]
BEFORE_SHIPPING = ("pending", "processing")


@dataclass(frozen=True, slots=True)
class Order:
    """One order as people speak of it; money in EUR."""

    id: int
    customer: str
    email: str
    status: OrderStatus
    placed_at: str  # ISO 8601, UTC
    address: dict[str, str]  # street, postal_code, city, country
    lines: tuple[tuple[int, str, str], ...]  # quantity, product name, sku
    total: Decimal
    paid: Decimal
    refunded: Decimal

    @property
    def left(self) -> Decimal:
        """What can still be refunded, in EUR."""
        return self.paid - self.refunded

    def check_refund(self, amount: Decimal) -> None:
        """Raise ToolError where so much cannot be refunded."""
        if not self.paid:
            raise ToolError(f"Order {self.id} has not been paid, so there is nothing to refund.")
        if not self.left:
            raise ToolError(f"Order {self.id} has been refunded in full already.")
        if amount > self.left:
            raise ToolError(f"Order {self.id} has {self.left} EUR left to refund.")

    def check_address(self, address: Mapping[str, str]) -> None:
        """Raise ToolError where it cannot be sent there instead."""
        if self.status not in BEFORE_SHIPPING:
            raise ToolError(f"Order {self.id} is {self.status}; its address can no longer change.")
        if dict(address) == self.address:
            raise ToolError(f"Order {self.id} already goes to that address.")

    def check_cancel(self) -> None:
        """Raise ToolError where it cannot be cancelled any more."""
        if self.status == "cancelled":
            raise ToolError(f"Order {self.id} is cancelled already.")
        if self.status not in BEFORE_SHIPPING:
            raise ToolError(
                f"Order {self.id} is {self.status}; only orders that have not shipped can be "
                "cancelled."
            )


def euros(cents: int) -> Decimal:
    """Cents as EUR with two places: 8990 -> Decimal("89.90")."""
    return Decimal(cents).scaleb(-2)


def cents(amount: Decimal) -> int:
    """EUR as whole cents; ValueError where a fraction of a cent would be lost."""
    whole = int(amount.scaleb(2))
    if whole != amount.scaleb(2):
        raise ValueError(f"{amount} EUR is not a whole number of cents")
    return whole


def one_line(address: Mapping[str, str]) -> str:
    """An address as people write it in a sentence."""
    return f"{address['street']}, {address['postal_code']} {address['city']}, {address['country']}"


def read_order(db: sqlite3.Connection, order_id: int) -> Order:
    """Return the order of that number; ToolError where there is none."""
    row = db.execute(
        "SELECT c.name, c.email, o.status, o.placed_at, o.street, o.postal_code, o.city, o.country,"
        " (SELECT coalesce(sum(quantity * unit_cents), 0) FROM order_line WHERE order_id = o.id),"
        " (SELECT coalesce(sum(cents), 0) FROM payment WHERE order_id = o.id AND kind = 'payment'),"
        " (SELECT coalesce(sum(cents), 0) FROM payment WHERE order_id = o.id AND kind = 'refund')"
        " FROM orders o JOIN customer c ON c.id = o.customer_id WHERE o.id = ?",
        (order_id,),
    ).fetchone()
    if row is None:
        raise ToolError(f"There is no order {order_id}.")
    lines = db.execute(
        "SELECT l.quantity, p.name, p.sku FROM order_line l JOIN product p ON p.sku = l.sku"
        " WHERE l.order_id = ? ORDER BY l.position",
        (order_id,),
    ).fetchall()
    customer, email, status, placed_at, *address, total, paid, refunded = row
    return Order(
        id=order_id,
        customer=customer,
        email=email,
        status=status,
        placed_at=placed_at,
        address=dict(zip(("street", "postal_code", "city", "country"), address, strict=True)),
        lines=tuple(lines),
        total=euros(total),
        paid=euros(paid),
        refunded=euros(refunded),
    )
