"""What strikes a life of the bot at a step: its end, or a disk that fails for a while."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import sqlite3
import struct
import threading
from contextlib import ExitStack, suppress
from enum import StrEnum
from pathlib import Path

from storage.store import Store
from tests.runs.test_disk import read_only

LASTS = 0.6  # seconds until the disk works again
PATIENCE = 10.0  # seconds that a statement waits for a lock


class Trouble(StrEnum):
    """What happens at the step."""

    KILLED = "killed"  # SIGKILL
    TWICE = "killed twice"  # and the next life soon after its start
    POWER = "power failure"  # SIGKILL, and writes that nobody waited for are not on the disk
    FULL = "disk full"  # ENOSPC
    WRITES = "no write"  # each write that would lengthen the log fails
    FSYNC = "EIO at fsync"  # each wait for the disk fails, until the process is restarted
    READ_ONLY = "read-only"  # the database may only be read
    LOCKED = "locked"  # another process writes, for longer than the bot's statements wait


ENDS = (Trouble.KILLED, Trouble.TWICE, Trouble.POWER)
DISK_TROUBLES = tuple(each for each in Trouble if each not in ENDS)


def start_trouble(trouble: Trouble, store: Store, lasts: float, well: threading.Event) -> None:
    """The disk fails from now on, and works again after `lasts` seconds, when `well` is set."""
    stack = ExitStack()
    well.clear()
    stack.callback(well.set)
    match trouble:
        case Trouble.FULL:
            ballast = fill(store.path.parent)
            stack.callback(ballast.unlink)
        case Trouble.WRITES:
            stack.callback(
                resource.setrlimit, resource.RLIMIT_FSIZE, _limit_file_length(store.path)
            )
        case Trouble.FSYNC:
            fail_fsync()
            stack.callback(os.kill, os.getpid(), signal.SIGKILL)
        case Trouble.READ_ONLY:
            stack.enter_context(read_only(store))
        case Trouble.LOCKED:
            if lasts < PATIENCE:
                stack.enter_context(read_only(store, "PRAGMA busy_timeout=1"))
            threading.Thread(target=_hold_write_lock, args=(store.path, lasts), daemon=True).start()
    threading.Timer(lasts, stack.close).start()


def fill(folder: Path) -> Path:
    """Write a file there until not one more byte fits; return it."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        for size in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while file.write(b"\0" * size):
                    pass
    return ballast


def _limit_file_length(database: Path) -> tuple[int, int]:
    """Let no file become longer than the database's log; return the limits before."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    length = Path(f"{database}-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (length, before[1]))
    return before


def _hold_write_lock(database: Path, lasts: float) -> None:
    """Hold the lock of all writers for a while, once it is free."""
    other = sqlite3.connect(database, isolation_level=None, timeout=PATIENCE)
    with suppress(sqlite3.OperationalError):
        other.execute("BEGIN IMMEDIATE")
        threading.Event().wait(lasts)
        other.execute("ROLLBACK")
    other.close()


# fsync fails by the kernel's filter of system calls: it needs no privilege and cannot be undone
_CALLS = {"x86_64": (317, 74, 75), "aarch64": (277, 82, 83)}  # seccomp, fsync, fdatasync
_NO_NEW_PRIVILEGES, _FILTER, _ALL_THREADS = 38, 1, 1
_LOAD, _IS, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERROR, _EIO = 0x7FFF0000, 0x00050000, 5


def can_fail_fsync() -> bool:
    """Whether `fail_fsync` knows this machine."""
    return platform.system() == "Linux" and platform.machine() in _CALLS


def fail_fsync() -> None:
    """From now on fsync and fdatasync of this process fail with EIO; raises OSError if not."""
    seccomp, *numbers = _CALLS[platform.machine()]
    program = [(_LOAD, 0, 0, 0)]  # the number of the system call
    for left, number in enumerate(reversed(numbers)):
        program.append((_IS, len(numbers) - left, 0, number))
    program += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERROR | _EIO)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    head = ctypes.create_string_buffer(
        struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    )
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.syscall(
        seccomp, _FILTER, _ALL_THREADS, head
    )
    if failed:
        raise OSError(ctypes.get_errno(), "the filter was refused")
