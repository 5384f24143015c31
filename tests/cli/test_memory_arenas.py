"""The limit on memory arenas that long-running commands set in the C library."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

ARENAS = """
import ctypes, sys, threading
from countersign.cli.process import limit_memory_arenas
{call}
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
here = threading.Barrier(12)
def take():
    here.wait()
    libc.malloc(5000)
    here.wait()
threads = [threading.Thread(target=take) for _ in range(12)]
for each in threads: each.start()
for each in threads: each.join()
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
print(open(sys.argv[1]).read().count("<heap "))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has arenas")
def test_threads_share_two_memory_arenas(tmp_path: object) -> None:
    """Without the limit, each of twelve threads could have an arena of its own."""
    found = []
    for call in ("", "limit_memory_arenas()"):
        command = [sys.executable, "-c", ARENAS.format(call=call), f"{tmp_path}/info"]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append(int(said.stdout))
    assert found[0] > found[1] == 2
