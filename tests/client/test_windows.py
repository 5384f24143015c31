"""The client's commands where the machine has what Windows has: few signals, and a code page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from client.tests.test_receipts import JWK, build_statement, sign_statement
from countersign.cli.hook import BLOCKED_EXIT_CODE
from tests.client.shop import Shop, get_result
from tests.client.test_hook import build_input
from tests.pages import ROOT

WINDOWS = """
import os, signal, socket, sys
for name in ("SIGHUP", "SIGALRM", "setitimer", "ITIMER_REAL"):
    delattr(signal, name)
del os.fork, os.set_blocking, socket.AF_UNIX
sys.modules["fcntl"] = None
"""
RUNS = "from countersign.cli.commands import main; sys.exit(main(sys.argv[1:]))"


def run_on_windows(
    given: bytes, *words: str, code: str = "", page: str = "cp1252"
) -> subprocess.CompletedProcess[bytes]:
    """Run a command with this code page and standard input; `code`: what is run before it."""
    command = [sys.executable, "-c", f"{WINDOWS}{code}\n{RUNS}", *words]
    environment = {**os.environ, "PYTHONIOENCODING": page}
    return subprocess.run(
        command, cwd=ROOT, env=environment, input=given, capture_output=True, timeout=60
    )


def test_a_hook_allows_what_people_approve(shop: Shop) -> None:
    """Its input is UTF-8, whatever the code page is."""
    given = build_input("echo fünf").replace("\\u00fc", "ü").encode()
    assert "ü".encode() in given
    future = shop.start(run_on_windows, given, "hook", "--channel", "C0SUPPORT")
    shop.approve("Use Bash: echo fünf")
    ended = get_result(future)
    answer = json.loads(ended.stdout)["hookSpecificOutput"]
    assert answer["permissionDecision"] == "allow", ended.stderr


def test_a_hook_that_takes_too_long_blocks_the_tool(shop: Shop) -> None:
    """Nothing interrupts its wait there, so it ends."""
    code = (
        "import countersign.cli.hook as h\n"
        "h.DEADLINE_GRACE_SECONDS = 0.0; h.PROCESSING_TIMEOUT_SECONDS = -58.0"
    )
    given = build_input("sleep 5").encode()
    ended = run_on_windows(given, "hook", "--channel", "C0SUPPORT", "--wait", "1m", code=code)
    assert ended.returncode == BLOCKED_EXIT_CODE
    assert shop.list_calls("sleep 5"), ended.stderr


@pytest.mark.parametrize("mark", [b"", "\ufeff".encode()], ids=["", "byte order mark"])
def test_a_receipt_is_verified_though_its_words_cannot_be_printed(
    tmp_path: Path, mark: bytes
) -> None:
    """A character that the code page lacks is written out; the standard input may have a mark."""
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(JWK))
    receipt = json.dumps(sign_statement(build_statement(effect="Refund → Ana")))
    words = ("verify", "-", "--key", str(keys), "--record")
    ended = run_on_windows(mark + receipt.encode(), *words)
    assert (ended.returncode, b"Refund \\u2192 Ana" in ended.stdout) == (0, True), ended


def test_a_closed_standard_input_has_no_receipt(tmp_path: Path) -> None:
    """It is said in a sentence."""
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(JWK))
    script = '"$0" -m countersign verify - --key "$1" <&-'
    command = ["sh", "-c", script, sys.executable, str(keys)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "- cannot be read" in ended.stderr
