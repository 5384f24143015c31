"""Where a tool's effect class comes from. Pure; every other module may import this one."""

from __future__ import annotations

from enum import StrEnum


class EffectSource(StrEnum):
    """The source of a tool's effect class; a call with no trusted source counts as destructive."""

    BY_AUTHOR = "author"  # whoever wrote the tool
    BY_NOBODY = "nobody"  # its author did not say
    BY_STRANGER = "stranger"  # its server did, and is not trusted to
