"""Tools as a bot offers them, for tests of the stand-in; Pydantic makes the schemas."""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from typing import Any, Literal

from pydantic import BaseModel, Field


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


class Cancel(BaseModel):
    order_id: int
    reason: str = Field(min_length=3)
    restock: bool = True


class Nothing(BaseModel):
    pass


class Post(BaseModel):
    channel: str
    text: str


class Channel(BaseModel):
    name: str
    private: bool = False


class Duty(BaseModel):
    person: str = Field(min_length=1, max_length=80)
    hours: int = Field(8, ge=1, le=72)


class Place(Enum):
    STAGING = "staging"
    PROD = "prod-eu"


class Restart(BaseModel):
    deployment: str = Field(pattern="^[a-z-]+$")
    place: Place
    how: Literal["gently", "hard"] = "gently"


class Statement(BaseModel):
    database: str
    sql: str


READS: dict[str, type[BaseModel]] = {
    "look_up_order": Order,
    "search_orders": Search,
    "list_channels": Nothing,
    "query": Statement,
}
WRITES: dict[str, type[BaseModel]] = {
    "refund_order": Refund,
    "cancel_order": Cancel,
    "post_message": Post,
    "create_channel": Channel,
    "put_on_duty": Duty,
    "restart_deployment": Restart,
    "change": Statement,
}


def build_tool_schemas() -> list[dict[str, Any]]:
    """All tools as the `tools` of a request; writes take the approver's reason."""
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
