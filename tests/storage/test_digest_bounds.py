"""Where canonical text changes its form, to the last digit; and the key's file."""

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

EXACT = 9_007_199_254_740_991  # the greatest whole number that each program reads exactly


def test_where_whole_numbers_become_text() -> None:
    """Beyond what RFC 8785 has a number for, on either side of zero."""
    assert [canonical_json(each) for each in (EXACT, -EXACT)] == [str(EXACT), str(-EXACT)]
    assert [canonical_json(each) for each in (EXACT + 1, -EXACT - 1)] == [
        f'"{EXACT + 1}"',
        f'"{-EXACT - 1}"',
    ]


def test_the_order_of_keys_is_that_of_their_letters() -> None:
    """Whatever order they were given in, at the top and deep inside."""
    assert canonical_json({"b": {"d": 1, "c": 2}, "a": "é"}) == '{"a":"é","b":{"c":2,"d":1}}'


@pytest.mark.parametrize("sign", ["", "-"])
def test_how_long_an_amount_may_be(sign: str) -> None:
    """Four thousand digits before or after its point, and not one more."""
    assert len(canonical_json(Decimal(f"{sign}1e4000"))) == 4001 + 2 + len(sign)
    assert canonical_json(Decimal("1e-4000")).endswith('1"')
    for exponent in ("4001", "-4001"):
        with pytest.raises(NonCanonicalValueError):
            canonical_json(Decimal(f"{sign}1e{exponent}"))


def test_a_key_is_its_owners_alone(tmp_path: Path) -> None:
    """Beside its database, in a file that nobody else reads, and never written over."""
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
