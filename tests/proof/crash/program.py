"""A program that asks over HTTP for something that it then does itself, as patient as people.

It repeats requests that were not answered, in the same words, and does its work once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any

from bot.cli.bot_connection import BotRefusedError, BotUnreachableError
from storage.states import CallStatus
from tests.client_keys import make_key, revoke_key
from tests.proof.crash.life import Stuck
from tests.proof.crash.people import ROUNDS, Act, Scene
from tests.records import store_of

NAME = "release"  # the name of its key
LONGEST = 30.0  # seconds that an answer may take
REQUESTS = "/v1/requests"
ACTION = {
    "name": "deploy",
    "title": "Deploy",
    "effect": "Deploy “{text}”",
    "does": "write",
    "schema": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    },
}


@dataclass
class Program:
    """A program, and what it knows."""

    text: str
    key: str = ""
    request: str = ""
    did: bool = False  # its work is done

    def send_until_answered(
        self, scene: Scene, method: str, path: str, body: Any = None
    ) -> tuple[int, Any]:
        """Send it until it is answered; returns the answer's status and JSON.

        Raises Died and Stuck.
        """
        for _ in range(ROUNDS):
            scene.settle()  # starts a dead bot again
            try:
                status, is_for_later, said = self._send(scene.world.address, method, path, body)
            except (OSError, HTTPException, ValueError):  # cut off
                continue
            if not is_for_later:
                return status, said
        raise Stuck(f"{method} {path} is not answered")

    def _send(self, address: str, method: str, path: str, body: Any) -> tuple[int, bool, Any]:
        headers = {
            "Authorization": f"Bearer {self.key}",
            "Content-Type": "application/json",
            "Idempotency-Key": f"release {self.text}".replace(" ", "-"),
        }
        line = HTTPConnection(address, timeout=LONGEST)
        try:
            line.request(method, path, None if body is None else json.dumps(body), headers)
            answer = line.getresponse()
            is_for_later = answer.getheader("Retry-After") is not None
            return answer.status, is_for_later, json.loads(answer.read())
        finally:
            line.close()

    def get_request(self, scene: Scene) -> dict[str, Any]:
        """Its request as it is now; an acknowledged one is known for ever."""
        status, said = self.send_until_answered(scene, "GET", f"{REQUESTS}/{self.request}")
        assert status == HTTPStatus.OK, said
        found: dict[str, Any] = said
        return found

    def is_decided(self, scene: Scene) -> bool:
        """Whether people have decided."""
        return self.get_request(scene)["status"] not in ("preparing", CallStatus.PENDING)

    def do_work(self, scene: Scene, given: dict[str, Any]) -> None:
        """Do what it was given; the ledger notes it."""
        scene.world.note(str(ACTION["name"]), given["text"])
        self.did = True


@dataclass
class MakeKey(Act):
    """The operator makes its key; a key whose answer was lost is revoked, and another made.

    Nobody has seen the lost one, and no other has its name.
    """

    program: Program

    def perform(self, scene: Scene) -> None:
        """See Act."""
        for _ in range(ROUNDS):
            scene.settle()
            if self.program.key:
                return
            at = store_of(scene.world.database).path
            try:
                try:
                    self.program.key = make_key(at, NAME, "@ben", ["deploy"]).key
                except BotRefusedError:
                    revoke_key(at, NAME)
            except BotUnreachableError:  # cut off
                continue
        raise Stuck("no key can be made")


@dataclass
class Ask(Act):
    """The program asks, with the same idempotency key until it is answered."""

    program: Program

    def perform(self, scene: Scene) -> None:
        """See Act."""
        if self.program.request:
            return
        wanted = {"action": ACTION, "arguments": {"text": self.program.text}, "channel": "#support"}
        status, said = self.program.send_until_answered(scene, "POST", REQUESTS, wanted)
        assert status in (HTTPStatus.CREATED, HTTPStatus.OK), said
        self.program.request = said["id"]


@dataclass
class Claim(Act):
    """Claims the call once people have decided, always as the same attempt, and does the work.

    A program that was away so long that people were asked gets nothing, and does nothing.
    """

    program: Program

    def perform(self, scene: Scene) -> None:
        """See Act."""
        if self.program.did:
            return
        scene.wait_until(
            lambda: self.program.is_decided(scene), "what people decided for the program"
        )
        sent = {"claimant": get_claimant(self.program)}
        path = f"{REQUESTS}/{self.program.request}/claim"
        status, said = self.program.send_until_answered(scene, "POST", path, sent)
        if status == HTTPStatus.CONFLICT:
            assert "time is over" in said["detail"] or "has ended" in said["detail"], said
            return
        assert status == HTTPStatus.OK, said
        self.program.do_work(scene, said["arguments"])


@dataclass
class Report(Act):
    """Reports its result, which is stored then, whatever strikes the bot next."""

    program: Program

    def perform(self, scene: Scene) -> None:
        """See Act."""
        if not self.program.did:
            return
        sent = {"claimant": get_claimant(self.program), "succeeded": True, "result": "done in 40 s"}
        path = f"{REQUESTS}/{self.program.request}/outcome"
        status, said = self.program.send_until_answered(scene, "POST", path, sent)
        assert status == HTTPStatus.OK, said
        assert self.program.get_request(scene)["status"] == CallStatus.SUCCEEDED


def get_claimant(program: Program) -> str:
    """The name of its one attempt."""
    return f"the-attempt-for-{program.text}"


def make_program_acts(text: str, *decided: Act) -> list[Act]:
    """The acts of a program with this text, with those of people in between."""
    program = Program(text)
    return [MakeKey(program), Ask(program), *decided, Claim(program), Report(program)]
