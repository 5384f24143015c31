"""The demo's web shop: a small SQLite database with its rules, without Slack, models or approvals.

Money is whole cents in the database and Decimal outside. Every method opens its own connection, so
any thread may call it. Writes run in `BEGIN IMMEDIATE` under an idempotency key: the same key gives
the same result and has its effect once. A broken rule raises ToolError with a sentence for the
requester.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from bot.tools import ToolError

# The initial content of the demo's shop: tables, customers, products, orders.

SCHEMA = """
CREATE TABLE IF NOT EXISTS customer (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE,
    street TEXT NOT NULL, postal_code TEXT NOT NULL, city TEXT NOT NULL, country TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS product (
    sku TEXT PRIMARY KEY, name TEXT NOT NULL, price_cents INTEGER NOT NULL CHECK (price_cents > 0),
    stock INTEGER NOT NULL CHECK (stock >= 0));
CREATE TABLE IF NOT EXISTS orders (
    id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customer (id),
    status TEXT NOT NULL
        CHECK (status IN
            ('pending', 'processing', 'shipped', 'delivered', 'returned', 'cancelled')),
    placed_at TEXT NOT NULL,
    street TEXT NOT NULL, postal_code TEXT NOT NULL, city TEXT NOT NULL, country TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS order_line (
    order_id INTEGER NOT NULL REFERENCES orders (id), position INTEGER NOT NULL,
    sku TEXT NOT NULL REFERENCES product (sku), quantity INTEGER NOT NULL CHECK (quantity > 0),
    unit_cents INTEGER NOT NULL CHECK (unit_cents > 0), PRIMARY KEY (order_id, position));
CREATE TABLE IF NOT EXISTS payment (
    id INTEGER PRIMARY KEY, order_id INTEGER NOT NULL REFERENCES orders (id),
    kind TEXT NOT NULL CHECK (kind IN ('payment', 'refund')),
    cents INTEGER NOT NULL CHECK (cents > 0),
    at TEXT NOT NULL, reason TEXT NOT NULL, note TEXT);
CREATE TABLE IF NOT EXISTS event (
    seq INTEGER PRIMARY KEY, key TEXT UNIQUE, order_id INTEGER NOT NULL REFERENCES orders (id),
    kind TEXT NOT NULL, at TEXT NOT NULL, request TEXT NOT NULL, result TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS payment_by_order ON payment (order_id);
CREATE INDEX IF NOT EXISTS event_by_order ON event (order_id)
"""

# name, e-mail address, street, postal code, city, country
CUSTOMERS = [
    line.split(" | ")
    for line in """\
Mara Lindqvist | mara.lindqvist@example.com | Storgatan 14 | 411 24 | Göteborg | Sweden
Tomás Ferreira | tomas.ferreira@example.com | Rua das Flores 88 | 4050-265 | Porto | Portugal
Ines Kowalska | ines.kowalska@example.com | ul. Długa 7 | 31-147 | Kraków | Poland
Jonas Brandt | jonas.brandt@example.com | Lindenallee 23 | 50968 | Köln | Germany
Aoife Byrne | aoife.byrne@example.com | 12 Harbour Row | T12 X8P4 | Cork | Ireland
Luca Bianchi | luca.bianchi@example.com | Via Garibaldi 31 | 16124 | Genova | Italy
Sanne de Wit | sanne.dewit@example.com | Oudegracht 205 | 3511 NG | Utrecht | Netherlands
Mikko Salonen | mikko.salonen@example.com | Hämeenkatu 9 | 33100 | Tampere | Finland
Élodie Garnier | elodie.garnier@example.com | 5 rue des Tanneurs | 37000 | Tours | France
Petra Novotná | petra.novotna@example.com | Kobližná 18 | 602 00 | Brno | Czechia
Hugo Salvatierra | hugo.salvatierra@example.com | Calle Mayor 41 | 50001 | Zaragoza | Spain
Signe Aagaard | signe.aagaard@example.com | Vestergade 3 | 8000 | Aarhus | Denmark
""".splitlines()
]

PRODUCTS = (
    ("LAMP", "Reading lamp", 5990, 14),
    ("MUG", "Stoneware mug", 1500, 120),
    ("VASE", "Glass vase", 3450, 22),
    ("TEA", "Assam tea, 250 g", 1290, 85),
    ("BOARD", "Oak cutting board", 4200, 31),
    ("TOWEL", "Linen towel", 1800, 64),
    ("CLOCK", "Wall clock", 7900, 9),
    ("KNIFE", "Paring knife", 2650, 47),
    ("BLANKET", "Wool blanket", 11900, 12),
    ("CANDLE", "Beeswax candle", 950, 200),
)

# Number, customer, status, items; "unpaid": cancelled before it was paid.
ORDERS = (
    (1030, 4, "delivered", "MUG:4"),
    (1031, 2, "delivered", "BLANKET:1"),
    (1032, 9, "returned", "CLOCK:1"),
    (1033, 7, "delivered", "TEA:3 MUG:1"),
    (1034, 11, "cancelled", "VASE:2"),
    (1035, 5, "delivered", "KNIFE:1 BOARD:1"),
    (1036, 12, "delivered", "CANDLE:6"),
    (1037, 1, "delivered", "TEA:2"),
    (1038, 8, "cancelled unpaid", "LAMP:1"),
    (1039, 3, "delivered", "TOWEL:4"),
    (1040, 6, "returned", "VASE:1 CANDLE:2"),
    (1041, 10, "delivered", "BOARD:2"),
    (1042, 1, "delivered", "LAMP:1 MUG:2"),
    (1043, 3, "processing", "CLOCK:1 CANDLE:2"),
    (1044, 4, "processing", "BLANKET:1 TEA:1"),
    (1045, 7, "shipped", "TOWEL:3"),
    (1046, 2, "shipped", "KNIFE:2"),
    (1047, 9, "shipped", "LAMP:1 CANDLE:4"),
    (1048, 5, "processing", "MUG:6"),
    (1049, 12, "pending", "BLANKET:2"),
    (1050, 6, "processing", "TEA:5"),
    (1051, 8, "shipped", "VASE:1"),
    (1052, 11, "pending", "CLOCK:1"),
    (1053, 10, "processing", "BOARD:1 KNIFE:1 TOWEL:2"),
    (1054, 1, "processing", "CANDLE:3"),
)

# Order, cents, reason: refunds from before the demo begins.
REFUNDS = (
    (1030, 1500, "damaged"),
    (1032, 7900, "returned"),
    (1034, 6900, "cancelled"),
    (1035, 1000, "late"),
    (1040, 5350, "returned"),
)

FIRST_ORDER_AT = datetime(2026, 10, 5, 9, 30, tzinfo=UTC)
ORDER_INTERVAL = timedelta(hours=37)


def list_initial_shop_rows() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield every row of a new shop as (table, values), in an order that foreign keys accept."""
    for number, customer in enumerate(CUSTOMERS, start=1):
        yield "customer", (number, *customer)
    for product in PRODUCTS:
        yield "product", product
    prices = {sku: price for sku, _, price, _ in PRODUCTS}
    for order_id, customer_id, state, bought in ORDERS:
        status, _, unpaid = state.partition(" ")
        placed = FIRST_ORDER_AT + (order_id - ORDERS[0][0]) * ORDER_INTERVAL
        yield (
            "orders",
            (order_id, customer_id, status, placed.isoformat(), *CUSTOMERS[customer_id - 1][2:]),
        )
        total = 0
        for position, line in enumerate(bought.split(), start=1):
            sku, quantity = line.split(":")
            total += int(quantity) * prices[sku]
            yield "order_line", (order_id, position, sku, int(quantity), prices[sku])
        yield "event", (None, None, order_id, "placed", placed.isoformat(), "{}", "{}")
        if status != "pending" and not unpaid:
            at = (placed + timedelta(minutes=4)).isoformat()
            yield "payment", (None, order_id, "payment", total, at, "card", None)
    for order_id, amount, reason in REFUNDS:
        at = (FIRST_ORDER_AT + timedelta(days=30, minutes=order_id % 60)).isoformat()
        yield "payment", (None, order_id, "refund", amount, at, reason, None)


OrderStatus = Literal["pending", "processing", "shipped", "delivered", "returned", "cancelled"]
UNSHIPPED_STATUSES = ("pending", "processing")


@dataclass(frozen=True, slots=True)
class Order:
    """One order with customer, items and payments; money in EUR."""

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
    def refundable_amount(self) -> Decimal:
        """The amount that can still be refunded, in EUR."""
        return self.paid - self.refunded

    def check_refund(self, amount: Decimal) -> None:
        """Raise ToolError if this amount (EUR) cannot be refunded."""
        if not self.paid:
            raise ToolError(f"Order {self.id} has not been paid, so there is nothing to refund.")
        if not self.refundable_amount:
            raise ToolError(f"Order {self.id} has been refunded in full already.")
        if amount > self.refundable_amount:
            raise ToolError(
                f"Order {self.id} has {self.refundable_amount} EUR left to refund.", field="amount"
            )

    def check_address_change(self, address: Mapping[str, str]) -> None:
        """Raise ToolError if the address can no longer change, or is this one already."""
        if self.status not in UNSHIPPED_STATUSES:
            raise ToolError(f"Order {self.id} is {self.status}; its address can no longer change.")
        if dict(address) == self.address:
            raise ToolError(f"Order {self.id} already goes to that address.")

    def check_cancel(self) -> None:
        """Raise ToolError if the order can no longer be cancelled."""
        if self.status == "cancelled":
            raise ToolError(f"Order {self.id} is cancelled already.")
        if self.status not in UNSHIPPED_STATUSES:
            raise ToolError(
                f"Order {self.id} is {self.status}; only orders that have not shipped can be "
                "cancelled."
            )


def convert_cents_to_euros(cents: int) -> Decimal:
    """Return cents as EUR with two places: 8990 -> Decimal("89.90")."""
    return Decimal(cents).scaleb(-2)


def convert_euros_to_cents(amount: Decimal) -> int:
    """Return EUR as whole cents; ValueError if a fraction of a cent would be lost."""
    whole = int(amount.scaleb(2))
    if whole != amount.scaleb(2):
        raise ValueError(f"{amount} EUR is not a whole number of cents")
    return whole


def address_line(address: Mapping[str, str]) -> str:
    """Return an address on one line, as in a sentence."""
    return f"{address['street']}, {address['postal_code']} {address['city']}, {address['country']}"


def load_order(db: sqlite3.Connection, order_id: int) -> Order:
    """Return the order with this number; ToolError if there is none."""
    row = db.execute(
        "SELECT c.name, c.email, o.status, o.placed_at, o.street, o.postal_code, o.city, o.country,"
        " (SELECT coalesce(sum(quantity * unit_cents), 0) FROM order_line WHERE order_id = o.id),"
        " (SELECT coalesce(sum(cents), 0) FROM payment WHERE order_id = o.id AND kind = 'payment'),"
        " (SELECT coalesce(sum(cents), 0) FROM payment WHERE order_id = o.id AND kind = 'refund')"
        " FROM orders o JOIN customer c ON c.id = o.customer_id WHERE o.id = ?",
        (order_id,),
    ).fetchone()
    if row is None:
        raise ToolError(f"There is no order {order_id}.", field="order_id")
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
        total=convert_cents_to_euros(total),
        paid=convert_cents_to_euros(paid),
        refunded=convert_cents_to_euros(refunded),
    )


BUSY_TIMEOUT_SECONDS = 10.0  # how long a connection waits for another one's write
Receipt = dict[str, Any]
OrderChange = Callable[[sqlite3.Connection, Order], Receipt]


class Shop:
    """The demo's shop, stored in one SQLite file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def create_database(self) -> None:
        """Create the tables and the demo's data.

        A shop that already has customers is left as it is.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._transaction("BEGIN IMMEDIATE") as db:
            for statement in SCHEMA.split(";"):
                db.execute(statement)
            if db.execute("SELECT 1 FROM customer").fetchone():
                return
            for table, values in list_initial_shop_rows():
                marks = ", ".join("?" * len(values))
                statement = f"INSERT INTO {table} VALUES ({marks})"  # noqa: S608 # tables of our own
                db.execute(statement, values)

    def get_order(self, order_id: int) -> Order:
        """Return the order with this number; ToolError if there is none."""
        with self._transaction("BEGIN DEFERRED") as db:
            return load_order(db, order_id)

    def search(
        self, customer: str | None, status: OrderStatus | None, limit: int
    ) -> tuple[list[Order], int]:
        """Return at most `limit` matching orders, newest first, and how many match in all.

        `customer` is part of a name or e-mail address; None matches everything.
        """
        query = (
            "FROM orders o JOIN customer c ON c.id = o.customer_id"
            " WHERE (:status IS NULL OR o.status = :status) AND (:customer IS NULL"
            " OR instr(fold(c.name), fold(:customer)) OR instr(fold(c.email), fold(:customer)))"
        )
        values = {"status": status, "customer": customer, "limit": limit}
        with self._transaction("BEGIN DEFERRED") as db:
            (count,) = db.execute(f"SELECT count(*) {query}", values).fetchone()
            rows = db.execute(f"SELECT o.id {query} ORDER BY o.id DESC LIMIT :limit", values)
            return [load_order(db, order_id) for (order_id,) in rows.fetchall()], count

    def refund(
        self, key: str, order_id: int, amount: Decimal, reason: str, note: str | None, at: datetime
    ) -> Receipt:
        """Pay back `amount` EUR and return a receipt; ToolError for more than can be refunded."""

        def effect(db: sqlite3.Connection, order: Order) -> Receipt:
            order.check_refund(amount)
            _insert_refund(db, order_id, amount, at, reason, note)
            return {
                "order_id": order_id,
                "refunded": f"{amount} EUR",
                "refunded_in_all": f"{order.refunded + amount} EUR",
                "left_to_refund": f"{order.refundable_amount - amount} EUR",
            }

        request = {"amount": str(amount), "reason": reason, "note": note}
        return self._run_once(key, "refund", order_id, request, at, effect)

    def change_address(
        self, key: str, order_id: int, address: Mapping[str, str], notify: bool, at: datetime
    ) -> Receipt:
        """Change the delivery address and return a receipt; ToolError once the order shipped."""

        def effect(db: sqlite3.Connection, order: Order) -> Receipt:
            order.check_address_change(address)
            db.execute(
                "UPDATE orders SET street = :street, postal_code = :postal_code, city = :city,"
                " country = :country WHERE id = :id",
                {**address, "id": order_id},
            )
            result: Receipt = {"order_id": order_id, "ships_to": address_line(address)}
            return {**result, "notified": order.email} if notify else result

        request = {"address": dict(address), "notify": notify}
        return self._run_once(key, "address", order_id, request, at, effect)

    def cancel(self, key: str, order_id: int, reason: str, restock: bool, at: datetime) -> Receipt:
        """Cancel an order and pay back what is left; ToolError once the order has shipped."""

        def effect(db: sqlite3.Connection, order: Order) -> Receipt:
            order.check_cancel()
            db.execute("UPDATE orders SET status = 'cancelled' WHERE id = ?", (order_id,))
            if order.refundable_amount:
                _insert_refund(db, order_id, order.refundable_amount, at, "cancelled", reason)
            back = sum(quantity for quantity, _, _ in order.lines) if restock else 0
            for quantity, _, sku in order.lines if restock else ():
                db.execute("UPDATE product SET stock = stock + ? WHERE sku = ?", (quantity, sku))
            return {
                "order_id": order_id,
                "status": "cancelled",
                "refunded": f"{order.refundable_amount} EUR",
                "items_back_in_stock": back,
            }

        return self._run_once(
            key, "cancel", order_id, {"reason": reason, "restock": restock}, at, effect
        )

    def _run_once(
        self,
        key: str,
        kind: str,
        order_id: int,
        request: Mapping[str, Any],
        at: datetime,
        effect: OrderChange,
    ) -> Receipt:
        """Run `effect` and store its result under `key`, or return the result already stored there.

        Raises ToolError if the key was used for another request.
        """
        if not key:
            raise ValueError("a write needs an idempotency key")
        request_text = json.dumps([kind, order_id, request], sort_keys=True)
        with self._transaction("BEGIN IMMEDIATE") as db:
            row = db.execute("SELECT request, result FROM event WHERE key = ?", (key,)).fetchone()
            if row is not None:
                if row[0] != request_text:
                    raise ToolError("This call already did something else; nothing was done now.")
                return dict(json.loads(row[1]))
            result = effect(db, load_order(db, order_id))
            db.execute(
                "INSERT INTO event (key, order_id, kind, at, request, result)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (
                    key,
                    order_id,
                    kind,
                    at.astimezone(UTC).isoformat(),
                    request_text,
                    json.dumps(result),
                ),
            )
            return result

    def _connect(self) -> sqlite3.Connection:
        # Transactions are written out below; sqlite3's implicit ones would begin DEFERRED.
        db = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None)
        db.execute("PRAGMA foreign_keys=ON")
        # SQLite's lower() knows ASCII only
        db.create_function("fold", 1, str.casefold, deterministic=True)
        return db

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with closing(self._connect()) as db, db:  # as a context, `db` commits or rolls back
            db.execute(begin)
            yield db


def _insert_refund(
    db: sqlite3.Connection,
    order_id: int,
    amount: Decimal,
    at: datetime,
    reason: str,
    note: str | None,
) -> None:
    db.execute(
        "INSERT INTO payment (order_id, kind, cents, at, reason, note)"
        " VALUES (?, 'refund', ?, ?, ?, ?)",
        (order_id, convert_euros_to_cents(amount), at.astimezone(UTC).isoformat(), reason, note),
    )
