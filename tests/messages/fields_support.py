"""A model with a field of each kind, and a Slack client that fills in the Edit dialog."""

from __future__ import annotations

import json
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

from pydantic import AnyUrl, BaseModel, EmailStr, Field, SecretStr
from slack_sdk.models.views import View

from bot.cards.button_codec import CallTarget
from bot.cards.edit_form import ParsedEdit, parse_edit_submission, render_edit_dialog
from bot.cards.field_layout import FieldErrors
from bot.cards.field_values import list_argument_values
from bot.tools import Effect, Tool, ToolContext
from slack_sandbox.blockkit.blocks import check_view
from slack_sandbox.blockkit.inputs import merge, problems, states


class Speed(Enum):
    """A choice of strings."""

    SLOW = "slow"
    FAST = "fast & furious"


class Address(BaseModel):
    """A model nested one level down."""

    city: str = Field(min_length=1)
    zip_code: str | None = None
    country: Literal["DE", "FR"] = "DE"


class Line(BaseModel):
    """A model nested too deep for inputs of its own."""

    sku: str
    count: int = 1


class Everything(BaseModel):
    """One field of each kind."""

    name: str
    note: str | None = None
    body: str = Field(default="", max_length=2000)
    count: int = Field(default=1, ge=0)
    big: int = 2**60
    amount: Decimal = Field(default=Decimal("40.00"), gt=0, le=Decimal("500.00"))
    ratio: float = 0.1
    yes: bool = False
    maybe: bool | None = None
    speed: Speed = Speed.SLOW
    level: Literal[1, 2, "x"] | None = None
    day: date = date(2026, 11, 21)
    at: datetime = datetime.fromisoformat("2026-11-21T10:00:05.000123+02:00")
    clock: time = time(10, 30, 15)
    email: EmailStr = "ana@example.com"
    link: AnyUrl = AnyUrl("https://example.com/a")
    tags: list[str] = []
    labels: list[str] | None = None
    address: Address = Address(city="Berlin")
    other: Address | None = None
    lines: list[Line] = []
    extra: dict[str, Any] = {}
    either: int | str = 1
    token: str = "s3cret-value"
    password: SecretStr = SecretStr("hunter22")


def make_tool(model: type[BaseModel], title: str = "Change it", **options: Any) -> Tool[Any]:
    """Make a tool that takes the model and does nothing."""

    def act(args: Any, context: ToolContext) -> None:
        return None

    return Tool(
        name="act",
        title=title,
        effect="Act",
        does=Effect.WRITE,
        arguments=model,
        function=act,
        **options,
    )


def dump(model: BaseModel) -> dict[str, Any]:
    """Dump the arguments as they are stored."""
    return model.model_dump(mode="json")


def changed_values(
    tool: Tool[Any], before: dict[str, Any], after: dict[str, Any]
) -> list[tuple[str, str, str]]:
    """List what the card shows as changed: label, old text and new text."""
    found = list_argument_values(tool, after, before)
    return [(v.label, v.previous_text, v.text) for v in found if v.previous_text is not None]


def render_view(
    tool: Tool[Any], arguments: dict[str, Any], approve: bool = False
) -> dict[str, Any]:
    """Render the Edit dialog and check it with the sandbox and Slack's own library."""
    view = render_edit_dialog(
        tool, arguments, target=CallTarget("call-1", 3), save_and_approve=approve
    )
    assert check_view(view) == []
    View(**view).validate_json()
    return view


def fill_in(view: dict[str, Any], **entered: Any) -> dict[str, Any]:
    """Return the state that Slack sends after a person filled in inputs.

    The inputs are named by block id, with "." as "__" and without "f:".

    A string or None is put into the element as its type requires; options are chosen by value.
    """
    values = states(view["blocks"])
    for name, value in entered.items():
        block_id = name if name == "then" else "f:" + name.replace("__", ".")
        element = next(b["element"] for b in view["blocks"] if b.get("block_id") == block_id)
        values = merge(values, {block_id: {"v": _state(element, value)}})
    return values


def _state(element: dict[str, Any], value: Any) -> dict[str, Any]:
    match element["type"]:
        case "static_select" | "radio_buttons":
            return {
                "selected_option": next(
                    (o for o in element["options"] if o["value"] == value), None
                )
            }
        case "checkboxes":
            return {"selected_options": [o for o in element["options"] if o["value"] in value]}
        case "datepicker" | "timepicker" | "datetimepicker" as kind:
            return {
                {"datepicker": "selected_date", "timepicker": "selected_time"}.get(
                    kind, "selected_date_time"
                ): value
            }
        case _:
            return {"value": value}


def submit(tool: Tool[Any], arguments: dict[str, Any], **entered: Any) -> ParsedEdit | FieldErrors:
    """Open the dialog, fill it in, and submit it as Slack's client would, after its own checks."""
    view = render_view(tool, arguments, approve=True)
    state = fill_in(view, **entered)
    assert problems(view["blocks"], state) == {}
    return parse_edit_submission(tool, arguments, state)


def edit(tool: Tool[Any], arguments: dict[str, Any], **entered: Any) -> dict[str, Any]:
    """Edit arguments and return what changed: dotted key -> new value."""
    parsed = submit(tool, arguments, **entered)
    assert isinstance(parsed, ParsedEdit), parsed
    old, new = _flat(arguments), _flat(parsed.arguments)
    changes = {
        key: value
        for key, value in new.items()
        if key not in old or json.dumps(value) != json.dumps(old[key])
    }
    changes |= dict.fromkeys(old.keys() - new.keys())
    assert parsed.changed == bool(changes)
    return changes


def _flat(arguments: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in arguments.items():
        if isinstance(value, dict) and key in ("address", "other"):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found


def list_errors(tool: Tool[Any], arguments: dict[str, Any], **entered: Any) -> dict[str, str]:
    """Return the errors of an edit, each one short and at an input of the dialog.

    Here Slack's client checks nothing itself.
    """
    refused = parse_edit_submission(
        tool, arguments, fill_in(render_view(tool, arguments), **entered)
    )
    assert isinstance(refused, FieldErrors), refused
    ids = {b["block_id"] for b in render_view(tool, arguments)["blocks"] if b["type"] == "input"}
    assert refused.errors.keys() <= {*ids, ""}  # "" is about the whole form
    assert all(0 < len(text) <= 150 for text in refused.errors.values())
    return refused.errors


def find_block(view: dict[str, Any], block_id: str) -> dict[str, Any]:
    """Find the block with that id."""
    return next(each for each in view["blocks"] if each.get("block_id") == block_id)


def find_element(tool: Any, arguments: dict[str, Any], block_id: str) -> dict[str, Any]:
    """Find the element of that input."""
    found: dict[str, Any] = find_block(render_view(tool, arguments), block_id)["element"]
    return found
