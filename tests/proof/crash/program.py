"""A program that asks over HTTP for what it then does itself, and is as patient as people are.

What was not answered it says again, in the same words; what it was given it does once.
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

NAME = "release"  # of its key
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
    """One, and what it knows by now."""

    text: str
    key: str = ""
    request: str = ""
    did: bool = False  # what it was given to do

    def says(self, scene: Scene, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Say it until it is answered; the answer's status and JSON. Raises Died and Stuck."""
        for _ in range(ROUNDS):
            scene.rest()  # a dead bot is started anew
            try:
                status, is_for_later, said = self._say(scene.world.address, method, path, body)
            except (OSError, HTTPException, ValueError):  # cut off
                continue
            if not is_for_later:
                return status, said
        raise Stuck(f"{method} {path} is not answered")

    def _say(self, address: str, method: str, path: str, body: Any) -> tuple[int, bool, Any]:
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

    def stands(self, scene: Scene) -> dict[str, Any]:
        """How its request stands; what was acknowledged is known for ever."""
        status, said = self.says(scene, "GET", f"{REQUESTS}/{self.request}")
        assert status == HTTPStatus.OK, said
        found: dict[str, Any] = said
        return found

    def is_decided(self, scene: Scene) -> bool:
        """Whether people have said what is to become of it."""
        return self.stands(scene)["status"] not in ("preparing", CallStatus.PENDING)

    def does(self, scene: Scene, given: dict[str, Any]) -> None:
        """Do what it was given, which the ledger notes."""
        scene.world.note(str(ACTION["name"]), given["text"])
        self.did = True


@dataclass
class MakeKey(Act):
    """The operator makes its key; where the answer was lost, that one is ended, and another made.

    Nobody has seen the lost one, and no other has its name.
    """

    program: Program

    def attempt(self, scene: Scene) -> None:
        """As Act says."""
        for _ in range(ROUNDS):
            scene.rest()
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

    def attempt(self, scene: Scene) -> None:
        """As Act says."""
        if self.program.request:
            return
        wanted = {"action": ACTION, "arguments": {"text": self.program.text}, "channel": "#support"}
        status, said = self.program.says(scene, "POST", REQUESTS, wanted)
        assert status in (HTTPStatus.CREATED, HTTPStatus.OK), said
        self.program.request = said["id"]


@dataclass
class Claim(Act):
    """Once people have decided, it claims the call, as the same attempt however often, and does it.

    Where it was gone for so long that people were asked, it is given nothing, and does nothing.
    """

    program: Program

    def attempt(self, scene: Scene) -> None:
        """As Act says."""
        if self.program.did:
            return
        scene.until(lambda: self.program.is_decided(scene), "what people decided for the program")
        sent = {"claimant": claimant(self.program)}
        path = f"{REQUESTS}/{self.program.request}/claim"
        status, said = self.program.says(scene, "POST", path, sent)
        if status == HTTPStatus.CONFLICT:
            assert "time is over" in said["detail"] or "has ended" in said["detail"], said
            return
        assert status == HTTPStatus.OK, said
        self.program.does(scene, said["arguments"])


@dataclass
class Report(Act):
    """It says what came of what it did, which stands there then, whatever strikes the bot next."""

    program: Program

    def attempt(self, scene: Scene) -> None:
        """As Act says."""
        if not self.program.did:
            return
        sent = {"claimant": claimant(self.program), "succeeded": True, "result": "done in 40 s"}
        path = f"{REQUESTS}/{self.program.request}/outcome"
        status, said = self.program.says(scene, "POST", path, sent)
        assert status == HTTPStatus.OK, said
        assert self.program.stands(scene)["status"] == CallStatus.SUCCEEDED


def claimant(program: Program) -> str:
    """The name of its one attempt."""
    return f"the-attempt-for-{program.text}"


def asks_claims_reports(text: str, *decided: Act) -> list[Act]:
    """What a program does about this text, with what people do in between."""
    program = Program(text)
    return [MakeKey(program), Ask(program), *decided, Claim(program), Report(program)]
