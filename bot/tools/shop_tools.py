"""The shop's tools: look up, search, refund, change an address, cancel.

The rules are the shop's own, see `web_shop`; none are here.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from bot.tools import Effect, Tool, ToolContext, tool
from bot.tools.web_shop import Order, OrderStatus, Shop, address_line

OrderId = Field(
    title="Order", ge=1, le=9_999_999, description="The order's number, for example 1042."
)
TOOL_TIMEOUT_SECONDS = 20.0  # twice BUSY_TIMEOUT_SECONDS of the shop's database


class OrderArguments(BaseModel):
    """Base of the shop tools' argument models: refuses unknown fields, drops outer blanks."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


class LookUp(OrderArguments):
    """Arguments of look_up_order."""

    order_id: int = OrderId


class Search(OrderArguments):
    """Arguments of search_orders."""

    customer: str | None = Field(
        None,
        title="Customer",
        max_length=100,
        description="Part of the customer's name or e-mail address.",
    )
    status: OrderStatus | None = Field(None, title="Status")
    limit: int = Field(10, title="At most", ge=1, le=20)


class Refund(OrderArguments):
    """Arguments of refund_order."""

    order_id: int = OrderId
    amount: Decimal = Field(
        title="Amount (EUR)",
        gt=0,
        max_digits=8,
        decimal_places=2,
        description="In EUR, for example 40.00.",
    )
    reason: Literal["damaged", "wrong_item", "late", "goodwill", "other"] = Field(title="Reason")
    note: str | None = Field(None, title="Note", max_length=500, description="For the bookkeeping.")

    @field_validator("amount", mode="after")
    @classmethod
    def _round_to_cents(cls, amount: Decimal) -> Decimal:
        # So that 40, 40.0 and 40.00 are one value wherever it is shown or compared.
        return amount.quantize(Decimal("0.01"))


class Address(OrderArguments):
    """Where an order goes."""

    street: str = Field(title="Street and number", min_length=3, max_length=100)
    postal_code: str = Field(
        title="Postal code", min_length=3, max_length=12, pattern=r"^[A-Za-z0-9][A-Za-z0-9 -]*$"
    )
    city: str = Field(title="City", min_length=1, max_length=80)
    country: str = Field(title="Country", min_length=2, max_length=60)


class ChangeAddress(OrderArguments):
    """Arguments of change_address."""

    order_id: int = OrderId
    address: Address = Field(title="New address")
    notify: bool = Field(True, title="Tell the customer by e-mail")


class Cancel(OrderArguments):
    """Arguments of cancel_order."""

    order_id: int = OrderId
    reason: str = Field(title="Reason", min_length=3, max_length=300)
    restock: bool = Field(True, title="Put the items back in stock")


def build_order_tools(shop: Shop) -> list[Tool[Any]]:
    """Return the five tools that work on `shop`, whose database must have been created."""
    return [
        _build_look_up_tool(shop),
        _build_search_tool(shop),
        _build_refund_tool(shop),
        _build_change_address_tool(shop),
        _build_cancel_tool(shop),
    ]


def _build_look_up_tool(shop: Shop) -> Tool[Any]:
    @tool(
        title="Look up an order",
        effect="Look up order {order_id}",
        step=lambda args: f"looking up order {args.order_id}",
        does=Effect.READ,
        timeout=TOOL_TIMEOUT_SECONDS,
    )
    def look_up_order(args: LookUp, _context: ToolContext) -> dict[str, Any]:
        """Look up one order: customer, status, items, address, what was paid and refunded."""
        order = shop.get_order(args.order_id)
        return {
            **_summarise_order(order),
            "email": order.email,
            "items": [f"{quantity} × {name}" for quantity, name, _ in order.lines],
            "ships_to": address_line(order.address),
            "payments": f"{order.paid} EUR",
            "refunds": f"{order.refunded} EUR",
            "left_to_refund": f"{order.refundable_amount} EUR",
        }

    return look_up_order


def _build_search_tool(shop: Shop) -> Tool[Any]:
    def searching(args: Search) -> str:
        return f"searching the orders of {args.customer}" if args.customer else "searching orders"

    @tool(
        title="Search orders",
        effect="Search the shop's orders",
        step=searching,
        does=Effect.READ,
        timeout=TOOL_TIMEOUT_SECONDS,
    )
    def search_orders(args: Search, _context: ToolContext) -> dict[str, Any]:
        """Find orders by customer (part of a name or an e-mail address) and status.

        The newest come first.
        """
        orders, count = shop.search(args.customer, args.status, args.limit)
        return {
            "matching": count,
            "shown": len(orders),
            "orders": [_summarise_order(order) for order in orders],
        }

    return search_orders


def _build_refund_tool(shop: Shop) -> Tool[Any]:
    def money(args: Refund, order: Order) -> str:
        order.check_refund(args.amount)
        return (
            f"Paid {order.paid} EUR, refunded {order.refunded} EUR → "
            f"{order.refunded + args.amount} EUR"
        )

    def refunded(args: Refund, receipt: dict[str, Any]) -> str:
        left = receipt["left_to_refund"].removesuffix(" EUR")
        return f"Refunded {args.amount} EUR of order {args.order_id}, {left} left"

    @tool(
        title="Refund an order",
        effect="Refund {amount} EUR of order {order_id}",
        does=Effect.WRITE,
        idempotent=True,
        preview=_build_order_preview(shop, money),
        outcome=refunded,
        step=lambda args: f"refunding {args.amount} EUR of order {args.order_id}",
        timeout=TOOL_TIMEOUT_SECONDS,
    )
    def refund_order(args: Refund, context: ToolContext) -> dict[str, Any]:
        """Pay back part or all of what the customer paid for an order, in EUR."""
        return dict(
            shop.refund(
                context.call_id, args.order_id, args.amount, args.reason, args.note, context.now
            )
        )

    return refund_order


def _build_change_address_tool(shop: Shop) -> Tool[Any]:
    def where(args: ChangeAddress, order: Order) -> str:
        address = args.address.model_dump()
        order.check_address_change(address)
        return f"Now: {address_line(order.address)}\nNew: {address_line(address)}"

    @tool(
        title="Change the delivery address",
        effect="Send order {order_id} to {address.street}, {address.postal_code} {address.city}",
        does=Effect.WRITE,
        idempotent=True,
        preview=_build_order_preview(shop, where),
        outcome=lambda args, receipt: f"Order {args.order_id} now goes to {receipt['ships_to']}",
        step=lambda args: f"changing where order {args.order_id} goes",
        timeout=TOOL_TIMEOUT_SECONDS,
    )
    def change_address(args: ChangeAddress, context: ToolContext) -> dict[str, Any]:
        """Change where an order that has not shipped yet will be delivered."""
        address = args.address.model_dump()
        return shop.change_address(
            context.call_id, args.order_id, address, args.notify, context.now
        )

    return change_address


def _build_cancel_tool(shop: Shop) -> Tool[Any]:
    def consequences(args: Cancel, order: Order) -> str:
        order.check_cancel()
        items = ", ".join(f"{quantity} × {name}" for quantity, name, _ in order.lines)
        stock = "go back into stock" if args.restock else "do not go back into stock"
        return f"{order.refundable_amount} EUR will be paid back\n{items}: {stock}"

    def cancelled(args: Cancel, receipt: dict[str, Any]) -> str:
        stocked = ", items back in stock" if receipt["items_back_in_stock"] else ""
        return f"Cancelled order {args.order_id}, {receipt['refunded']} paid back{stocked}"

    @tool(
        title="Cancel an order",
        effect="Cancel order {order_id}",
        does=Effect.DESTRUCTIVE,
        idempotent=True,
        preview=_build_order_preview(shop, consequences),
        outcome=cancelled,
        step=lambda args: f"cancelling order {args.order_id}",
        timeout=TOOL_TIMEOUT_SECONDS,
    )
    def cancel_order(args: Cancel, context: ToolContext) -> dict[str, Any]:
        """Cancel an order that has not shipped yet and pay back what is left of its payment.

        Cannot be undone.
        """
        return shop.cancel(context.call_id, args.order_id, args.reason, args.restock, context.now)

    return cancel_order


def _summarise_order(order: Order) -> dict[str, Any]:
    return {
        "order_id": order.id,
        "customer": order.customer,
        "status": order.status,
        "placed": order.placed_at[:10],
        "total": f"{order.total} EUR",
    }


def _build_order_preview(
    shop: Shop, lines: Callable[[Any, Order], str]
) -> Callable[[Any, ToolContext], str]:
    """Return a preview function that names the order, followed by `lines` about it."""

    def preview(args: Any, _context: ToolContext) -> str:
        order = shop.get_order(args.order_id)
        return f"Order {order.id} · {order.customer} · {order.status}\n{lines(args, order)}"

    return preview
