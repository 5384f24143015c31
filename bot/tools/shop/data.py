"""What the demo's shop is born with: tables, customers, products, orders.

Constants and arithmetic only.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

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

CUSTOMERS = (
    (
        "Mara Lindqvist",
        "mara.lindqvist@example.com",
        "Storgatan 14",
        "411 24",
        "Göteborg",
        "Sweden",
    ),
    (
        "Tomás Ferreira",
        "tomas.ferreira@example.com",
        "Rua das Flores 88",
        "4050-265",
        "Porto",
        "Portugal",
    ),
    ("Ines Kowalska", "ines.kowalska@example.com", "ul. Długa 7", "31-147", "Kraków", "Poland"),
    ("Jonas Brandt", "jonas.brandt@example.com", "Lindenallee 23", "50968", "Köln", "Germany"),
    ("Aoife Byrne", "aoife.byrne@example.com", "12 Harbour Row", "T12 X8P4", "Cork", "Ireland"),
    ("Luca Bianchi", "luca.bianchi@example.com", "Via Garibaldi 31", "16124", "Genova", "Italy"),
    (
        "Sanne de Wit",
        "sanne.dewit@example.com",
        "Oudegracht 205",
        "3511 NG",
        "Utrecht",
        "Netherlands",
    ),
    ("Mikko Salonen", "mikko.salonen@example.com", "Hämeenkatu 9", "33100", "Tampere", "Finland"),
    (
        "Élodie Garnier",
        "elodie.garnier@example.com",
        "5 rue des Tanneurs",
        "37000",
        "Tours",
        "France",
    ),
    ("Petra Novotná", "petra.novotna@example.com", "Kobližná 18", "602 00", "Brno", "Czechia"),
    (
        "Hugo Salvatierra",
        "hugo.salvatierra@example.com",
        "Calle Mayor 41",
        "50001",
        "Zaragoza",
        "Spain",
    ),
    ("Signe Aagaard", "signe.aagaard@example.com", "Vestergade 3", "8000", "Aarhus", "Denmark"),
)

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

# Number, customer, status, what was bought; "unpaid" where a cancelled order never was paid.
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

# Order, cents, reason: what was paid back before the story begins.
REFUNDS = (
    (1030, 1500, "damaged"),
    (1032, 7900, "returned"),
    (1034, 6900, "cancelled"),
    (1035, 1000, "late"),
    (1040, 5350, "returned"),
)

FIRST_ORDER_AT = datetime(2026, 10, 5, 9, 30, tzinfo=UTC)
BETWEEN_ORDERS = timedelta(hours=37)


def rows() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Every row of the new shop as (table, values), in an order that foreign keys accept."""
    for number, customer in enumerate(CUSTOMERS, start=1):
        yield "customer", (number, *customer)
    for product in PRODUCTS:
        yield "product", product
    prices = {sku: price for sku, _, price, _ in PRODUCTS}
    for order_id, customer_id, state, bought in ORDERS:
        status, _, unpaid = state.partition(" ")
        placed = FIRST_ORDER_AT + (order_id - ORDERS[0][0]) * BETWEEN_ORDERS
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
