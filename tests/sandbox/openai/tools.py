"""Tools as a bot would offer them, for the tests of the stand-in: schemas only, made by Pydantic."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, Field


class Order(BaseModel):
    order_id: int


class Search(BaseModel):
    customer: str | None = None
    status: Literal["open", "paid", "shipped", "cancelled"] | None = None
    limit: int = Field(10, ge=1, le=20)


class Refund(BaseModel):
    order_id: int
    amount: Decimal = Field(gt=0, decimal_places=2)
    reason: Literal["damaged", "wrong_item", "late", "goodwill", "other"]
    note: str | None = None


class Address(BaseModel):
    street: str
    postal_code: str
    city: str
    country: str


class ChangeAddress(BaseModel):
    order_id: int
    address: Address
    notify: bool = Field(True, title="Tell the customer by e-mail")


class Cancel(BaseModel):
    order_id: int
    reason: str = Field(min_length=3)
    restock: bool = True


class Nothing(BaseModel):
    pass


class Post(BaseModel):
    channel: str
    text: str


class Schedule(Post):
    at: AwareDatetime


class Channel(BaseModel):
    name: str
    private: bool = False


class Invite(BaseModel):
    channel: str
    people: list[str]


class Topic(BaseModel):
    channel: str
    topic: str


class Service(BaseModel):
    service: str


class Booking(BaseModel):
    email: str = Field(json_schema_extra={"format": "email"})
    day: str = Field(json_schema_extra={"format": "date"})
    seats: int


READS: dict[str, type[BaseModel]] = {
    "look_up_order": Order,
    "search_orders": Search,
    "list_channels": Nothing,
    "list_people": Nothing,
}
WRITES: dict[str, type[BaseModel]] = {
    "refund_order": Refund,
    "change_address": ChangeAddress,
    "cancel_order": Cancel,
    "post_message": Post,
    "schedule_message": Schedule,
    "create_channel": Channel,
    "invite": Invite,
    "set_topic": Topic,
    "restart_service": Service,
    "book_table": Booking,
}


def offered() -> list[dict[str, Any]]:
    """All of them as the `tools` of a request; writes take the approver's reason."""
    found = []
    for name, model in (READS | WRITES).items():
        schema = model.model_json_schema() | {"additionalProperties": False}
        if name in WRITES:
            reason = {"type": "string", "maxLength": 500}
            schema["properties"] = {**schema.get("properties", {}), "reason_for_approver": reason}
        about = f"To {name.replace('_', ' ')}."
        found.append(
            {
                "type": "function",
                "name": name,
                "description": about,
                "parameters": schema,
                "strict": False,
            }
        )
    return found
