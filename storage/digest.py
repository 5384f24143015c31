"""Canonical JSON, digests of what a call would run, the audit's hash chain, and their key.

No I/O except for the key's file.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import rfc8785

encode_json = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode
MAX_DECIMAL_DIGITS = 4000  # on either side of the point: "1e999999999" would fill the memory
KEY_MIN_CHARS = 32
MAX_JSON_DEPTH = 32  # as deep as forms take it
MAX_SAFE_INTEGER = 2**53 - 1  # beyond it RFC 8785 has no exact number, so it is written as a string


class KeyFileError(ValueError):
    """Raised when a key file does not hold a valid key."""


class NonCanonicalValueError(ValueError):
    """Raised for a value without a canonical form.

    Such are NaN, an infinity, a duplicate key, a lone surrogate, and a foreign type.
    """


def canonical_json(value: Any) -> str:
    """Return RFC 8785 JSON, equal for equal values; raises NonCanonicalValueError.

    Except for floats and non-ASCII keys, Python's own encoder writes the same text, several times
    as fast.
    """
    rare: list[Any] = []
    try:
        plain = _to_json_types(value, rare)
        if rare:
            return rfc8785.dumps(plain).decode()
        return encode_json(plain).encode().decode()  # encoding refuses lone surrogates
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise NonCanonicalValueError(str(error)) from error


def _to_json_types(value: Any, rare: list[Any]) -> Any:
    """Return the value in JSON's types; add to `rare` what `json` would not write canonically."""
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return value if abs(value) <= MAX_SAFE_INTEGER else str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NonCanonicalValueError("NaN and infinities are not values")
        rare.append(value)
        return value
    if isinstance(value, Decimal):
        return _format_decimal(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise NonCanonicalValueError("object keys must be strings")
        rare += [key for key in value if not key.isascii()]
        return {str(key): _to_json_types(each, rare) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json_types(each, rare) for each in value]
    raise NonCanonicalValueError(f"{type(value).__name__} has no canonical form")


def _format_decimal(value: Decimal) -> str:
    """Return every digit of the number, without trailing zeros.

    `normalize()` would round to 28 digits.
    """
    if not value.is_finite():
        raise NonCanonicalValueError("NaN and infinities are not values")
    if abs(value.adjusted()) > MAX_DECIMAL_DIGITS:
        raise NonCanonicalValueError("a number is too long")
    text = format(value, "f") if value else "0"
    return text.rstrip("0").rstrip(".") if "." in text else text


def load_canonical_json(text: str) -> Any:
    """Parse canonical JSON into a value that has the same canonical JSON again.

    A whole number beyond 2**53 becomes a float, because `canonical_json` writes an int of that size
    as a string.
    """
    return json.loads(text, parse_int=_parse_whole_number)


def _parse_whole_number(digits: str) -> int | float:
    number = int(digits)
    return number if abs(number) <= MAX_SAFE_INTEGER else float(digits)


def parse_json_object(text: str) -> dict[str, Any]:
    """Parse a JSON object strictly.

    Raises NonCanonicalValueError for duplicate keys, NaN and more than MAX_JSON_DEPTH levels.
    """

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(found)
        if len(result) != len(found):
            raise NonCanonicalValueError("a key is given twice in the same object")
        return result

    def refuse(constant: str) -> Any:
        raise NonCanonicalValueError(f"{constant} is not a JSON value")

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=refuse)
        _require_shallow_json(value)
    except NonCanonicalValueError:
        raise
    # ValueError is also raised for a number of more than 4300 digits
    except (ValueError, RecursionError) as error:
        raise NonCanonicalValueError(f"not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise NonCanonicalValueError("the arguments must be a JSON object")
    return value


def _require_shallow_json(value: Any) -> None:
    """Raise NonCanonicalValueError for a value that is nested more than MAX_JSON_DEPTH levels deep.

    How deep the interpreter itself can go depends on its version and on who calls.
    """
    level = [value]
    for _ in range(MAX_JSON_DEPTH):
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise NonCanonicalValueError(f"the JSON is nested more than {MAX_JSON_DEPTH} levels deep")


def compute_digest_of_call(
    key: bytes,
    *,
    tool: str,
    schema: str,
    arguments: str,
    requester: str,
    team: str,
    gate: str,
    revision: int,
    expects: str = "",
    effect: str = "",
) -> str:
    """Return the HMAC-SHA256 (hex) of what a call would run and for whom.

    Two digests are equal only if all of these parameters are. `arguments` and `gate` are canonical
    JSON text; `schema` is the tool's schema digest; `effect` is the template of the sentence that
    says what it does, "" in calls of earlier builds.
    """
    parts = [tool, schema, arguments, requester, team, gate, revision, expects]
    body = canonical_json([*parts, effect] if effect else parts)
    return hmac.new(key, body.encode(), hashlib.sha256).hexdigest()


def key_file_path(database: Path) -> Path:
    """Return the path of that database's key file, used if the key is not a setting."""
    return database.with_name(f"{database.name}.key")


def load_or_create_signing_key(path: Path) -> SigningKey:
    """Return the key in `path`, and create it (mode 0600) on first use.

    Processes that create it at the same time all read the same one.
    """
    if not path.exists():
        write_key_file_if_absent(path, secrets.token_hex(32).encode())
    return read_key_file(path)


def write_key_file_if_absent(path: Path, key: bytes) -> None:
    """Store that key in `path` (mode 0600), unless the file exists.

    The file is written under another name and then linked, so it never holds half a key.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(format_signing_key(key).encode())
            handle.flush()
            os.fsync(handle.fileno())
        os.link(temporary, path)
    except FileExistsError:
        pass  # another process was faster: its key is used
    finally:
        temporary.unlink()


def read_key_file(path: Path) -> SigningKey:
    """Return the key in `path` with older ones from further lines; KeyFileError if invalid."""
    try:
        return parse_signing_key(path.read_text())
    except ValueError as error:
        raise KeyFileError(f"{path} does not hold a key of at least 32 characters") from error


def parse_signing_key(text: str) -> SigningKey:
    """Return the key in use, with the older ones that follow on further lines or after commas.

    Raises ValueError if one is shorter than 32 characters, or there is none.
    """
    keys = [each.strip() for each in text.strip().replace(",", "\n").splitlines()]
    if any(len(each) < KEY_MIN_CHARS for each in keys) or not keys:
        raise ValueError(f"a key is shorter than {KEY_MIN_CHARS} characters")
    return SigningKey(*(each.encode() for each in keys))


def format_signing_key(key: bytes) -> str:
    """Return the key and its older ones as text that `parse_signing_key` reads."""
    return "\n".join(each.decode() for each in list_current_and_older_keys(key))


# The audit's hash chain: the seal of a row covers the seal of the one before it and is made with a
# key, so nobody without the key can change, add or swap rows. Missing rows at the end are detected
# with the head file (`storage.trail`).

PolicyContextReader = Callable[[], Mapping[str, str]]
FIRST_PREVIOUS_HASH = "0" * 64  # in place of the previous hash in the first row


@dataclass(frozen=True, slots=True)
class AuditHead:
    """The newest row of the audit chain: its number and its keyed hash."""

    seq: int = 0
    hash: str = FIRST_PREVIOUS_HASH


def compute_key_id(key: bytes) -> str:
    """Return eight hex digits that identify a key without revealing anything of it."""
    return hashlib.sha256(b"countersign key id\0" + key).hexdigest()[:8]


class SigningKey(bytes):
    """The key in use with older keys, which only verify what they signed."""

    older_keys: tuple[bytes, ...]

    def __new__(cls, *keys: bytes) -> SigningKey:
        """Take the key in use first, then the older ones."""
        made = super().__new__(cls, keys[0])
        made.older_keys = tuple(keys[1:])
        return made

    def __reduce__(self) -> tuple[type[SigningKey], tuple[bytes, ...]]:
        """Pickle the older keys as well."""
        return SigningKey, (bytes(self), *self.older_keys)


def list_current_and_older_keys(key: bytes) -> tuple[bytes, ...]:
    """Return the key in use, followed by its older keys."""
    return (key, *key.older_keys) if isinstance(key, SigningKey) else (key,)


def get_key_by_id_or_current(key: bytes, key_id: str) -> bytes:
    """Return the key with that id, or the one in use if none has it."""
    return next(
        (each for each in list_current_and_older_keys(key) if compute_key_id(each) == key_id), key
    )


def list_key_ids(key: bytes) -> set[str]:
    """Return the ids of all accepted keys."""
    return {compute_key_id(each) for each in list_current_and_older_keys(key)}


class AuditChainSealer:
    """Makes the keyed hashes that chain audit rows, with one store's signing key."""

    def __init__(self, key: bytes, under: PolicyContextReader = dict) -> None:
        """Derive the audit's key from `key`; `under` returns the policy and model in force now."""
        own = hmac.digest(key, b"countersign audit", "sha256")  # used for nothing else
        # copied for each seal: creating one from a key takes three times as long as a seal
        self._begun = hmac.new(own, digestmod=hashlib.sha256)
        self.key_id = compute_key_id(key)
        self.under = under
        older = (AuditChainSealer(each) for each in list_current_and_older_keys(key)[1:])
        self._older = {each.key_id: each for each in older}

    def find_sealer_by_key_id(self, key_id: str) -> AuditChainSealer | None:
        """Return the sealer that uses the key with that id; None if the key is not known."""
        return self if key_id == self.key_id else self._older.get(key_id)

    def compute_next_audit_head(
        self,
        before: AuditHead,
        at: datetime,
        run_id: str,
        call_id: str,
        actor: str,
        event: str,
        data: str,
    ) -> AuditHead:
        """Return the number and keyed hash of the audit row that comes after the row `before`."""
        seq = before.seq + 1
        return AuditHead(
            seq, self.sign(seq, before.hash, at.isoformat(), run_id, call_id, actor, event, data)
        )

    def sign(self, *parts: str | int) -> str:
        """Return the HMAC-SHA256 (hex) of these parts under the audit's key."""
        seal = self._begun.copy()
        seal.update(json.dumps(parts).encode())
        return seal.hexdigest()
