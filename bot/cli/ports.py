"""A port as it is typed behind an option."""

from __future__ import annotations

import argparse

HIGHEST = 65_535


def port(text: str) -> int:
    """The number, from 0 (any that is free) to 65535; the usage tells of anything else."""
    if not (text.isascii() and text.isdecimal()) or int(text) > HIGHEST:
        why = f"there is no port {text!r}; give one from 0 to {HIGHEST}"
        raise argparse.ArgumentTypeError(why)
    return int(text)
