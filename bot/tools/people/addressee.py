"""Whom a question is for: a person by id, or a user group by its handle, made of what is written.

Who proposes a question validates with names looked up; stored ones hold ids and handles only.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from bot.policy.conditions.values import Id
from bot.policy.gates import Approvers
from bot.tools.names import Named, Naming


class _PersonOrGroup:
    """Marks a text that names a person or a user group."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.with_info_after_validator_function(self._made, handler(source))

    def _made(self, value: str, info: ValidationInfo) -> str:
        names = info.context
        if isinstance(names, Naming):
            return _found(names, value.strip())
        return value if value.startswith("@") else Id(value)


def _found(names: Naming, wanted: str) -> str:
    """Return the id of a person, or a group's handle with its @.

    Raises ValueError where nobody is called so, or a person and a group are; and as `Naming` does.
    """
    handle = wanted.removeprefix("@")
    if names.directory.group(handle) is None:
        return Id(names.id_of(Named.PERSON, wanted))
    if names.directory.named(handle):
        raise ValueError(f"{wanted} is a person and a user group: give the person's id.")
    return f"@{handle}"


Addressee = Annotated[
    str,
    Field(
        min_length=1,
        max_length=100,
        description="@handle, full name or id of a person, or the @handle of a user group; "
        "left out: the requester.",
    ),
    _PersonOrGroup(),
]


def people_asked(to: str | None, requester: str) -> Approvers:
    """Return who may answer a question for `to`, as it is stored; None is the requester."""
    if to is None:
        return Approvers(users=(requester,))
    if to.startswith("@"):
        return Approvers(groups=(to.removeprefix("@"),))
    return Approvers(users=(to,))
