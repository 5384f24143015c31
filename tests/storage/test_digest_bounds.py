"""Limits of canonical text, to the last digit; and the key's file."""

from __future__ import annotations

import stat
from decimal import Decimal
from pathlib import Path

import pytest

from storage.digest import (
    KeyFileError,
    NonCanonicalValueError,
    canonical_json,
    key_file_path,
    load_or_create_signing_key,
    write_key_file_if_absent,
)

EXACT = 9_007_199_254_740_991  # the greatest whole number that every JSON parser reads exactly


def test_whole_numbers_beyond_2_to_the_53_become_text() -> None:
    """RFC 8785 has no numbers for them, on either side of zero."""
    assert [canonical_json(each) for each in (EXACT, -EXACT)] == [str(EXACT), str(-EXACT)]
    assert [canonical_json(each) for each in (EXACT + 1, -EXACT - 1)] == [
        f'"{EXACT + 1}"',
        f'"{-EXACT - 1}"',
    ]


def test_keys_are_sorted_at_every_level() -> None:
    """The order in which they were given does not count."""
    assert canonical_json({"b": {"d": 1, "c": 2}, "a": "é"}) == '{"a":"é","b":{"c":2,"d":1}}'


@pytest.mark.parametrize("sign", ["", "-"])
def test_an_amount_may_have_4000_digits_on_either_side_of_the_point(sign: str) -> None:
    """One more is refused."""
    assert len(canonical_json(Decimal(f"{sign}1e4000"))) == 4001 + 2 + len(sign)
    assert canonical_json(Decimal("1e-4000")).endswith('1"')
    for exponent in ("4001", "-4001"):
        with pytest.raises(NonCanonicalValueError):
            canonical_json(Decimal(f"{sign}1e{exponent}"))


def test_the_key_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    """It lies beside its database and is never overwritten."""
    path = key_file_path(tmp_path / "record.db")
    assert path == tmp_path / "record.db.key"
    key = load_or_create_signing_key(path)
    assert (len(key), stat.S_IMODE(path.stat().st_mode)) == (64, 0o600)
    write_key_file_if_absent(path, b"x" * 32)
    assert load_or_create_signing_key(path) == key
    assert list(tmp_path.iterdir()) == [path]
    path.write_text("k" * 32)
    assert load_or_create_signing_key(path) == b"k" * 32
    path.write_text("k" * 31)
    with pytest.raises(KeyFileError):
        load_or_create_signing_key(path)
