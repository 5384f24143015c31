"""What the audit keeps of arguments: readable, with secret fields by a keyed digest only."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from storage.chain import Chain
from storage.digest import OddValueError, canonical, parse_object
from storage.masking import Path, replaced
from storage.models import Revision
from storage.transaction import Transaction

MOST = 4000  # characters of arguments that cannot be read


def revised(tx: Transaction, row: Revision, secret: Collection[Path | str]) -> dict[str, Any]:
    """What people were to be shown as this revision; `secret`: fields, or
    paths to values, that are kept by digest."""
    return {
        "revision": row.number,
        "digest": row.digest,
        "arguments": _readable(tx, row.call_id, json.loads(row.arguments), secret),
        "sealed": sealed(tx.chain, row),
    }


def sealed(chain: Chain, row: Revision) -> str:
    """The keyed digest of the stored arguments, exactly as they would run."""
    return chain.sign("revision", row.call_id, row.number, row.arguments)


def refused(
    tx: Transaction, call_id: str, text: str, secret: Collection[Path | str]
) -> dict[str, Any]:
    """What the model proposed and nobody was asked about, in its own words."""
    try:
        return {"arguments": _readable(tx, call_id, parse_object(text), secret)}
    except OddValueError:  # where a secret would stand is not known
        kept = f"{len(text)} characters" if secret else text[:MOST]
        return {"arguments": kept, "sealed": tx.chain.sign("refused", call_id, text)}


def _readable(
    tx: Transaction, call_id: str, values: dict[str, Any], secret: Collection[Path | str]
) -> dict[str, Any]:
    """The values; each secret one by a digest that is equal only within this call."""

    def sealed_value(path: Path, value: Any) -> str:
        name = path[0] if len(path) == 1 else canonical(list(path))
        return f"secret {tx.chain.sign('secret', call_id, name, canonical(value))[:16]}"

    paths = [(each,) if isinstance(each, str) else each for each in secret]
    found: dict[str, Any] = replaced(values, paths, sealed_value)
    return found
