"""Commands: `countersign ask` of a job, and the hook of a coding agent, each a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, ClassVar

from tests.pages import ROOT
from tests.sources.place import PATIENCE, Place
from tests.sources.source import Asked, End, Heard, Source
from tests.stories.harness import SUPPORT


class AskingJob(Source):
    """A CI job that asks, and writes what was approved once the command says so."""

    name = "ask"
    claims = True
    hears: ClassVar = {
        End.DONE: "exit 0",
        End.REJECTED: "exit 1",
        End.EXPIRED: "exit 2",
        End.CANCELLED: "exit 130",  # as Ctrl-C ends a command
    }

    def ask(self, text: str) -> Asked:
        """As Source says."""
        return _AskingJob(self.place, text)


class _Command(Asked):
    words: tuple[str, ...]
    typed: str = ""

    def __init__(self, place: Place, text: str) -> None:
        super().__init__(place, text)
        self.process = self.started()

    def started(self) -> subprocess.Popen[str]:
        """The command, begun."""
        raise NotImplementedError

    def begin(self, *words: str, typed: str = "") -> subprocess.Popen[str]:
        """Start `countersign` with these words, and type this."""
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
        """As Asked says: whoever runs it ends it."""
        self.place.card(self.text)
        self.process.terminate()

    def outcome(self) -> Heard:
        """As Asked says; what it was allowed is done now."""
        with self.process:
            printed, said = self.process.communicate(timeout=PATIENCE)
        return self.heard(self.process.returncode, printed, said)

    def heard(self, code: int, printed: str, said: str) -> Heard:
        """What the exit code and the output say."""
        raise NotImplementedError


class _AskingJob(_Command):
    def started(self) -> subprocess.Popen[str]:
        """As _Command says."""
        effect = "Write “{text}” down"
        words = ("ask", "write_for_job", f"text={self.text}", "--effect", effect)
        return self.begin(*words, "--channel", SUPPORT)

    def heard(self, code: int, printed: str, said: str) -> Heard:
        """As _Command says: the job goes on with the arguments that are printed."""
        if code == 0:
            arguments = json.loads(printed)["arguments"]
            return Heard("exit 0", self.place.did(arguments["text"]))
        told = [line for line in said.splitlines() if not line.startswith("Asked")]
        return Heard(f"exit {code}", "\n".join(told))


class CodingAgent(Source):
    """A coding agent whose hook asks before it uses a tool."""

    name = "hook"
    claims = True
    hears: ClassVar = {
        End.DONE: "allow",
        End.REJECTED: "deny",
        End.EXPIRED: "deny",
        End.CANCELLED: "exit 2",  # by which it takes a no
    }

    def ask(self, text: str) -> Asked:
        """As Source says."""
        return _CodingAgent(self.place, text)


class _CodingAgent(_Command):
    def started(self) -> subprocess.Popen[str]:
        """As _Command says."""
        use = {
            "session_id": "5c1e",
            "cwd": "/home/ben/book",
            "hook_event_name": "PreToolUse",
            "tool_name": "mcp__book__write",
            "tool_input": {"text": self.text},
            "tool_use_id": f"toolu_{abs(hash(self.text))}",
        }
        words = ("hook", "--channel", SUPPORT, "--wait", "55m")
        return self.begin(*words, typed=json.dumps(use))

    def heard(self, code: int, printed: str, said: str) -> Heard:
        """As _Command says: it uses the tool with the input that it is given."""
        if code:
            return Heard(f"exit {code}", said)
        answer: dict[str, Any] = json.loads(printed)["hookSpecificOutput"]
        if answer["permissionDecision"] == "allow":
            given = answer.get("updatedInput", {"text": self.text})
            return Heard("allow", self.place.did(given["text"]))
        return Heard(answer["permissionDecision"], answer["permissionDecisionReason"])
