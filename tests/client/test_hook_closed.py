"""`countersign hook` as Claude Code starts it: whatever goes wrong blocks the tool."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from countersign.cli.hook import BLOCKED_EXIT_CODE
from tests.client.test_hook import build_input
from tests.pages import ROOT

HOOK = [sys.executable, "-m", "bot", "hook", "--wait", "30s"]
# faults in the process, planted before the command line begins
BREAKS = {
    "nothing of ours can be imported": "sys.modules['countersign.client'] = None",
    "a module fails": "import countersign.cli.approval_wait as w; del w.parse_wait_option",
    "out of memory": "import json\ndef load(_): raise MemoryError\njson.load = load",
    "an exit from within": "import json\ndef load(_): raise GeneratorExit\njson.load = load",
    "no standard input": "sys.stdin = None",
    "no standard output": "sys.stdout = None",
    "no standard error": "sys.stderr = None",
    "the folder is gone": "import os; os.getcwd = lambda: (_ for _ in ()).throw(FileNotFoundError)",
    "input that never comes": "import countersign.cli.hook as h; h.INPUT_TIMEOUT_SECONDS = 0.2",
    "no answer in time": (
        "import countersign.cli.hook as h\n"
        "h.DEADLINE_GRACE_SECONDS = 0.0; h.PROCESSING_TIMEOUT_SECONDS = -29.5"
    ),
    "an answer that is none": (
        "import countersign.client as c\n"
        "c.Countersign.send_hook_input = lambda *_, **__: {'hookSpecificOutput': {}}"
    ),
    "an answer of another kind": (
        "import countersign.client as c\nc.Countersign.send_hook_input = lambda *_, **__: ['yes']"
    ),
}


@pytest.fixture
def silent_server() -> Iterator[dict[str, str]]:
    """The environment of a hook whose server accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        yield {**os.environ, "COUNTERSIGN_URL": url, "COUNTERSIGN_API_KEY": "csk_x"}


def is_blocked(code: int, said: str) -> bool:
    """Whether Claude Code takes this as blocked."""
    if code == BLOCKED_EXIT_CODE:
        return True
    found: dict[str, Any] = json.loads(said)["hookSpecificOutput"]
    return code == 0 and found["permissionDecision"] == "deny"


@pytest.mark.parametrize("name", BREAKS)
def test_any_fault_of_the_hook_blocks_the_tool(name: str, silent_server: dict[str, str]) -> None:
    """In the process, in its input and output, and in the server's answer."""
    code = (
        f"import sys\n{BREAKS[name]}\n"
        "from countersign.cli.commands import main\nsys.exit(main(['hook', '--wait', '30s']))"
    )
    never_comes = name == "input that never comes"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=silent_server,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as hook:
        assert hook.stdin is not None
        assert hook.stdout is not None
        if not never_comes:
            hook.stdin.write(build_input("ls"))
            hook.stdin.close()
        said = hook.stdout.read()
        assert is_blocked(hook.wait(60), said), said
        assert name != "no answer in time" or "Countersign did not answer in time." in said


@pytest.mark.parametrize("where", ["/dev/full", "a pipe that nobody reads", "closed"])
def test_an_answer_that_cannot_be_written_blocks_the_tool(where: str) -> None:
    """Not exit code 0, nor any other code at the very end."""
    command, pipe = [*HOOK], subprocess.DEVNULL
    if where == "closed":
        command = ["sh", "-c", 'exec "$@" >&-', "sh", *HOOK]
    elif where == "/dev/full":
        pipe = os.open(where, os.O_WRONLY)
    else:
        reader, pipe = os.pipe()
        os.close(reader)
    env = {name: text for name, text in os.environ.items() if "COUNTERSIGN" not in name}
    found = subprocess.run(
        command,
        cwd=ROOT,
        env=env,
        input=build_input("ls").encode(),
        stdout=pipe,
        check=False,
        timeout=60,
    )
    assert found.returncode == BLOCKED_EXIT_CODE


@pytest.mark.usefixtures("ending_hangups")
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("times", [1, 3])
def test_a_hook_ended_by_a_signal_blocks_the_tool(
    sent: signal.Signals, times: int, silent_server: dict[str, str]
) -> None:
    """While it reads its input, however often it is signalled."""
    script = (
        "import json, sys\n"
        "def load(source):\n    print('loads', file=sys.stderr, flush=True)\n    source.read()\n"
        "json.load = load\n"
        "from countersign.cli.commands import main\nsys.exit(main(['hook']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=silent_server,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as hook:
        assert hook.stderr is not None
        assert "loads" in hook.stderr.readline()
        for _ in range(times):
            hook.send_signal(sent)
        assert hook.wait(60) == BLOCKED_EXIT_CODE


@pytest.mark.long  # it waits as long as Claude Code would
def test_a_server_that_never_answers_blocks_the_tool(silent_server: dict[str, str]) -> None:
    """Nobody answers for as long as people have."""
    found = subprocess.run(
        [*HOOK[:-1], "1s"],
        cwd=ROOT,
        env=silent_server,
        input=build_input("ls"),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert is_blocked(found.returncode, found.stdout), found
