"""Argument types for channels, people and groups: names become ids once, when a call is proposed.

    class Move(BaseModel):
        channel: ChannelId = Field(title="Channel")
        people: list[PersonId]

Proposed or edited arguments are validated with a `SlackIdResolver`, which asks Slack; stored
arguments are loaded without one, since they hold ids only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from bot.policy.condition_values import SlackId

if TYPE_CHECKING:
    from bot.policy.authority import Directory

ID_KEYWORD = "x-id-of"  # JSON Schema keyword: "person", "channel" or "group"
ID_PATTERN_BY_KIND = {
    "channel": re.compile(r"[CG](?=[A-Z0-9]*\d)[A-Z0-9]{5,}"),
    "person": re.compile(r"[UW](?=[A-Z0-9]*\d)[A-Z0-9]{5,}"),
    "group": re.compile(r"S(?=[A-Z0-9]*\d)[A-Z0-9]{5,}"),
}
UNKNOWN_NAME = "unknown_name"  # type of the validation error of a name that Slack does not know
_DIRECT_MESSAGE_PATTERN = re.compile(r"@.*|[DUW](?=[A-Z0-9]*\d)[A-Z0-9]{5,}")
MAX_NAME_CHARS = 80
_BRACKET_REPLACEMENTS = str.maketrans("()（）⁽⁾❨❩﹙﹚<>", "[][][][][]‹›")
_MENTION_PATTERN = re.compile(r"<(?:[#@]|!subteam\^)([A-Z0-9]+)(?:\|[^>]*)?>")


def missing_channel_sentence(name: str) -> str:
    """Return the sentence for a missing channel, or a private one the requester is not in."""
    return f"There is no channel {name} that the bot and the person who asked can both see."


def clean_name(chosen: str) -> str:
    """Return a name that a person chose, made safe to stand before their id in brackets.

    On one line, at most 80 characters, round and angle brackets replaced.
    """
    one = " ".join(chosen.translate(_BRACKET_REPLACEMENTS).split())
    return one if len(one) <= MAX_NAME_CHARS else f"{one[: MAX_NAME_CHARS - 1]}…"


class SlackIdKind(StrEnum):
    """The kinds of Slack ids that a name may stand for."""

    CHANNEL = "channel"
    PERSON = "person"
    GROUP = "group"


@dataclass(slots=True)
class SlackIdResolver:
    """Turns names into ids by asking Slack, and keeps the names for the card.

    Its methods raise ValueError for a name that is unknown or ambiguous, and LookupFailedError and
    LookupPendingError as the directory does.
    """

    directory: Directory
    asker: str | None  # sees no private channels but their own; None: the operator, who sees all
    names_by_id: dict[str, str] = field(default_factory=dict)  # names that people read, by id

    def resolve_id(self, kind: SlackIdKind, name: str) -> str:
        """Return the id of the channel, person or group with this name, mention or id."""
        text = name.strip()
        mention = _MENTION_PATTERN.fullmatch(text)
        text = mention.group(1) if mention else text
        known = bool(ID_PATTERN_BY_KIND[kind].fullmatch(text))
        match kind:
            case SlackIdKind.CHANNEL:
                return self._resolve_channel(name, text, known)
            case SlackIdKind.PERSON:
                return self._resolve_person(name, text, known)
            case SlackIdKind.GROUP:
                return self._resolve_group(name, text, known)

    def _resolve_channel(self, written: str, text: str, is_id: bool) -> str:
        if _DIRECT_MESSAGE_PATTERN.fullmatch(text):
            raise ValueError(f"{written} is not a channel; direct messages are not possible here.")
        name = text if is_id else "#" + text.removeprefix("#").lower()
        channel_id = self.directory.find_channel_id(name)
        if channel_id is None or not (
            self.asker is None or self.directory.can_see_channel(self.asker, name)
        ):
            raise ValueError(missing_channel_sentence(name))
        # only members may know the name of a private channel that was given by its id
        public = self.directory.find_public_channel_name(channel_id) if is_id else name
        self.names_by_id[channel_id] = public or "a private channel"
        return channel_id

    def _resolve_person(self, written: str, text: str, is_id: bool) -> str:
        if not is_id:
            people = self.directory.find_people_by_name(text.removeprefix("@"))
            if not people:
                raise ValueError(f"There is nobody called {written}.")
            if len(people) > 1:
                several = " or ".join(f"@{handle} ({user})" for user, handle in people.items())
                raise ValueError(f"{written} may be {several}: say which by id.")
            text = next(iter(people))
        person = self.directory.find_person(text)
        if person is None:
            raise ValueError(f"There is nobody with the id {text}.")
        if person.deleted or person.is_bot:
            state = "deactivated" if person.deleted else "a bot"
            raise ValueError(f"{person.name} is {state}, so please choose somebody else.")
        self.names_by_id[text] = clean_name(person.name)
        return text

    def _resolve_group(self, given: str, text: str, known: bool) -> str:
        if known:
            return text
        handle = text.removeprefix("@")
        found = self.directory.find_group(handle)
        if found is None:
            raise ValueError(f"There is no user group {given}.")
        self.names_by_id[found.id] = f"@{handle}"
        return found.id


def build_id_validator(kind: SlackIdKind) -> AfterValidator:
    """Return a Pydantic validator that makes a text a SlackId, looking a name up where it can."""

    def resolve_value(value: str, info: ValidationInfo) -> SlackId:
        names = info.context
        if not isinstance(names, SlackIdResolver):
            return SlackId(value)
        try:
            return SlackId(names.resolve_id(kind, value))
        except ValueError as error:
            raise PydanticCustomError(UNKNOWN_NAME, "{why}", {"why": str(error)}) from error

    return AfterValidator(resolve_value)


def _build_id_field(kind: str, description: str) -> Any:
    extra: Any = {ID_KEYWORD: kind}
    return Field(min_length=1, max_length=100, description=description, json_schema_extra=extra)


ChannelId = Annotated[
    str,
    _build_id_field("channel", "#name or the channel's id."),
    build_id_validator(SlackIdKind.CHANNEL),
]
PersonId = Annotated[
    str,
    _build_id_field("person", "@handle, full name or id."),
    build_id_validator(SlackIdKind.PERSON),
]
GroupId = Annotated[
    str,
    _build_id_field("group", "@handle or the group's id."),
    build_id_validator(SlackIdKind.GROUP),
]
