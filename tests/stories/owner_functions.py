"""Functions that say who owns a value, as an operator would install them; for the stories."""

from __future__ import annotations

import threading

released = threading.Event()  # lets `find_slowly` go on


def find_owner(value: str) -> list[str] | str:
    """Ana owns what begins with p; the rest fails in one way or another."""
    if value == "broken":
        raise ConnectionError(value)
    if value == "slow":
        released.wait(60)
    return {"payments": ["UANA00001"], "slow": ["UANA00001"], "odd": "somebody"}.get(value, [])
