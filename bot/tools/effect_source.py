"""Who says what a call does to the world. Pure; a leaf that all may use."""

from __future__ import annotations

from enum import StrEnum


class EffectSource(StrEnum):
    """Who says what a call does to the world; unless it is known, it counts as destructive."""

    BY_AUTHOR = "author"  # whoever wrote the tool
    BY_NOBODY = "nobody"  # its author did not say
    BY_STRANGER = "stranger"  # its server did, and is not trusted to
