"""An owner function for the stories, as an operator would install it."""

from __future__ import annotations

import threading

released = threading.Event()  # lets a look-up of "slow" go on


def find_owner(value: str) -> list[str] | str:
    """Ana owns payments; the other values fail, are slow, return something odd or nobody."""
    if value == "broken":
        raise ConnectionError(value)
    if value == "slow":
        released.wait(60)
    return {"payments": ["UANA00001"], "slow": ["UANA00001"], "odd": "somebody"}.get(value, [])
