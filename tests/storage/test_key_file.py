"""The key of the digests: a file, created once and shared by all processes."""

from __future__ import annotations

import hashlib
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.digest import compute_key_id, load_or_create_signing_key

ROOT = Path(__file__).parents[2]

TEN_PROCESSES = """
import sys
from multiprocessing import get_context
from pathlib import Path
from storage.digest import load_or_create_signing_key

with get_context("fork").Pool(10) as pool:
    for path in sys.argv[1:]:
        keys = pool.map(load_or_create_signing_key, [Path(path)] * 10, chunksize=1)
        print(*{key.hex() for key in keys})
"""


def test_ten_processes_that_start_at_once_share_one_key(tmp_path: Path) -> None:
    """Its owner alone can read it, and no other file is left."""
    paths = [tmp_path / f"{number}.key" for number in range(5)]
    # they are forked from a process with one thread, unlike this one
    command = [sys.executable, "-c", TEN_PROCESSES, *map(str, paths)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout.split() == [path.read_bytes().hex() for path in paths]
    for path in paths:
        assert len(path.read_bytes()) == 64
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(tmp_path.iterdir()) == paths


def test_an_existing_key_is_kept_and_a_new_one_is_random(tmp_path: Path) -> None:
    """One that is too short is refused, also as an older one."""
    assert load_or_create_signing_key(tmp_path / "a") != load_or_create_signing_key(tmp_path / "b")
    assert load_or_create_signing_key(tmp_path / "a") == load_or_create_signing_key(tmp_path / "a")
    (tmp_path / "c").write_text(f"  {'k' * 32}\n")
    assert load_or_create_signing_key(tmp_path / "c") == b"k" * 32
    (tmp_path / "d").write_text("k" * 31)
    with pytest.raises(ValueError, match="at least 32"):
        load_or_create_signing_key(tmp_path / "d")
    (tmp_path / "d").write_text(f"{'k' * 32}\n{'o' * 31}\n")
    with pytest.raises(ValueError, match="at least 32"):
        load_or_create_signing_key(tmp_path / "d")


@given(st.binary(min_size=32, max_size=64), st.binary(min_size=32, max_size=64))
def test_a_keys_id_reveals_nothing_of_its_hash(one: bytes, other: bytes) -> None:
    """It has eight hexadecimal digits and is the same for the same key."""
    assert re.fullmatch("[0-9a-f]{8}", compute_key_id(one))
    assert (compute_key_id(one) == compute_key_id(other)) == (one == other)
    assert not hashlib.sha256(one).hexdigest().startswith(compute_key_id(one))
