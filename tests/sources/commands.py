"""A CI job and a coding agent: `countersign ask`, and Claude Code's hooks by command and HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, ClassVar
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

from tests.pages import ROOT
from tests.sources.place import PATIENCE, Place
from tests.sources.source import Asked, End, ReportedEnd, Source, Stage
from tests.stories.harness import SUPPORT

HOOK = "POST /v1/hooks/claude-code"
AFTERWARDS = f"{HOOK} PostToolUse"
WRITE = """
import sys
from xmlrpc.client import ServerProxy

ServerProxy(sys.argv[1]).did(sys.argv[2])
"""


class _Command(Asked):
    """A command, waited for on a thread."""

    def __init__(self, place: Place, text: str) -> None:
        super().__init__(place, text)
        self._pool = ThreadPoolExecutor(1)
        self._process = self.start()
        self._told = self._pool.submit(self._hear)

    def start(self) -> subprocess.Popen[str]:
        """Start the command."""
        raise NotImplementedError

    def begin(self, *words: str, typed: str = "") -> subprocess.Popen[str]:
        """Start `countersign` with these words and this input."""
        around = {"COUNTERSIGN_URL": self.place.line.url, "COUNTERSIGN_API_KEY": self.place.key}
        process = subprocess.Popen(
            [sys.executable, "-m", "bot", *words],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **around},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(typed)
        process.stdin.close()
        process.stdin = None
        return process

    def take_back(self) -> None:
        """Its runner ends it."""
        self._process.terminate()

    def outcome(self) -> ReportedEnd:
        """See Asked."""
        with self._pool:
            return self._told.result(PATIENCE)

    def _hear(self) -> ReportedEnd:
        with self._process as process:
            printed, said = process.communicate(timeout=PATIENCE)
        return self.heard(process.returncode, printed, said)

    def heard(self, code: int, printed: str, said: str) -> ReportedEnd:
        """Return the end that exit code and output report; do what was allowed."""
        raise NotImplementedError


class RunningJob(Source):
    """A CI job whose command runs with the approved values."""

    name = "ask"
    claims = True
    hears: ClassVar = {
        End.DONE: "exit 0",
        End.REJECTED: "exit 1",
        End.EXPIRED: "exit 2",
        End.CANCELLED: "exit 130",  # the exit code after Ctrl-C
    }

    def ask(self, text: str) -> Asked:
        """See Source."""
        return _RunningJob(self.place, text)


class _RunningJob(_Command):
    def start(self) -> subprocess.Popen[str]:
        """See _Command."""
        effect = "Write “{text}” down"
        words = ("ask", "write_for_job", f"text={self.text}", "--effect", effect)
        behind = (sys.executable, "-c", WRITE, self.place.book, "{text}")
        return self.begin(*words, "--channel", SUPPORT, "--", *behind)

    def heard(self, code: int, printed: str, said: str) -> ReportedEnd:
        """See _Command; its own command has run by then."""
        told = [line for line in said.splitlines() if not line.startswith("Asked")]
        return ReportedEnd(f"exit {code}", "\n".join(told))


class PrintingJob(Source):
    """A CI job that gets the approved values printed, and reports later how it went."""

    name = "ask, then outcome"
    claims = True
    hears: ClassVar = RunningJob.hears
    # it reports twice: that it has the values, and by another command how it went
    says: ClassVar = {
        **Source.says,
        Stage.DONE: 'POST /outcome "succeeded": true',
        Stage.REPORTED: 'POST /outcome "succeeded": true',
    }

    def ask(self, text: str) -> Asked:
        """See Source."""
        return _PrintingJob(self.place, text)


class _PrintingJob(_RunningJob):
    def start(self) -> subprocess.Popen[str]:
        """See _Command."""
        words = ("ask", "write_for_job", f"text={self.text}", "--effect", "Write “{text}” down")
        return self.begin(*words, "--channel", SUPPORT)

    def heard(self, code: int, printed: str, said: str) -> ReportedEnd:
        """See _Command."""
        if code:
            return super().heard(code, printed, said)
        found = json.loads(printed)
        result = self.place.did(found["arguments"]["text"])
        with self.begin("outcome", found["claim"], "succeeded", "--result", result) as process:
            assert process.wait(PATIENCE) == 0
        return ReportedEnd("exit 0", result)


class HookCommand(Source):
    """A coding agent whose hook asks before a tool is used, and reports afterwards."""

    name = "hook"
    hears: ClassVar = {
        End.DONE: "allow",
        End.REJECTED: "deny",
        End.EXPIRED: "deny",
        End.CANCELLED: "exit 2",  # which blocks the tool
    }
    says: ClassVar = {
        Stage.STORED: HOOK,
        Stage.CLAIMED: HOOK,
        Stage.DONE: AFTERWARDS,
        Stage.REPORTED: AFTERWARDS,
    }

    def ask(self, text: str) -> Asked:
        """See Source."""
        return _HookCommand(self.place, text)


class _HookCommand(_Command):
    def start(self) -> subprocess.Popen[str]:
        """See _Command."""
        words = ("hook", "--channel", SUPPORT, "--wait", "55m")
        return self.begin(*words, typed=json.dumps(_use(self.text)))

    def heard(self, code: int, printed: str, said: str) -> ReportedEnd:
        """See _Command; the tool is used with the input in the answer."""
        if code:
            return ReportedEnd(f"exit {code}", said)
        answer = json.loads(printed)
        heard = _read_answer(self.place, self.text, answer)
        if heard.how == "allow":
            used = json.dumps(_use(self.text, "PostToolUse", answer))
            with self.begin("hook", typed=used) as process:
                assert process.wait(PATIENCE) == 0
        return heard


class HookByHttp(Source):
    """A coding agent that calls the bot's address itself."""

    name = "HTTP hook"
    hears: ClassVar = {**HookCommand.hears, End.CANCELLED: "deny"}
    says: ClassVar = HookCommand.says
    # a restart blocks the tool: its one connection gets one answer
    ends: ClassVar = {Stage.WAITING: End.CANCELLED, Stage.APPROVED: End.CANCELLED}

    def ask(self, text: str) -> Asked:
        """See Source."""
        return _HookByHttp(self.place, text)


class _HookByHttp(Asked):
    def __init__(self, place: Place, text: str) -> None:
        super().__init__(place, text)
        self._pool = ThreadPoolExecutor(1)
        self._told = self._pool.submit(self._hear)

    def outcome(self) -> ReportedEnd:
        """See Asked."""
        with self._pool:
            return self._told.result(PATIENCE)

    def _hear(self) -> ReportedEnd:
        answer = self._say("PreToolUse")
        heard = _read_answer(self.place, self.text, answer)
        if heard.how == "allow":
            with suppress(OSError, HTTPException):  # only the record depends on it
                self._say("PostToolUse", answer)
        return heard

    def _say(self, event: str, answer: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send this event as the agent's own hook, after this answer; return the answer."""
        url = f"{self.place.line.url}/v1/hooks/claude-code?channel=%23support&wait=55m"
        said = json.dumps(_use(self.text, event, answer)).encode()
        headers = {"Authorization": f"Bearer {self.place.key}", "Content-Type": "application/json"}
        request = HttpRequest(url, said, headers, method="POST")
        with urlopen(request, timeout=PATIENCE) as answer:
            assert answer.status == HTTPStatus.OK
            found: dict[str, Any] = json.loads(answer.read())
        return found


def _use(
    text: str, event: str = "PreToolUse", answer: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A coding agent's description of this use of a tool, after the hook's `answer` if there is."""
    given = {"text": text}
    return {
        "session_id": "5c1e",
        "cwd": "/home/ben/book",
        "hook_event_name": event,
        "tool_name": "mcp__book__write",
        "tool_input": _find_input(given, answer) if answer else given,
        "tool_use_id": f"toolu_{text.encode().hex()}",
        "tool_response": {},
    }


def _read_answer(place: Place, text: str, said: dict[str, Any]) -> ReportedEnd:
    """Read a hook's answer, and do what it allows."""
    answer = said["hookSpecificOutput"]
    if answer["permissionDecision"] == "allow":
        return ReportedEnd("allow", place.did(_find_input({"text": text}, said)["text"]))
    return ReportedEnd(answer["permissionDecision"], answer["permissionDecisionReason"])


def _find_input(given: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """The input with which the tool is used after this answer."""
    found: dict[str, Any] = said["hookSpecificOutput"].get("updatedInput", given)
    return found
