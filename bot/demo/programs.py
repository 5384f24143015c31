"""The demo's programs: keys by which they ask, and what two of them asked before anybody came.

They ask over HTTP, as any program does; what is in the file beside the demo lets another terminal
ask, too.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.demo.history import HOUR, card_with, channel_named, pressed
from bot.programs.program_client import KeyWanted, say_to_the_bot
from countersign.client import Countersign, new_claimant
from countersign.request import Does, OwnAction

if TYPE_CHECKING:
    from slack_sandbox.server import Sandbox

VARIABLES = "program.sh"  # what a program at another terminal needs to ask, as a shell reads it
DEPLOY = OwnAction(
    "deploy_shop",
    "Deploy the shop",
    "Deploy {version} to {env}",
    Does.WRITE,
    {
        "type": "object",
        "properties": {
            "version": {"type": "string", "title": "Version"},
            "env": {"enum": ["staging", "prod"], "title": "Where"},
        },
        "required": ["version", "env"],
    },
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A program asked in #support, so many minutes ago; Cleo approved what it does itself."""

    client: Countersign
    ago: int
    what: str | OwnAction
    arguments: Mapping[str, Any]
    reason: str
    result: str = ""  # how it went, where it did it itself

    def happen(self, sandbox: Sandbox, settle: Callable[[], None]) -> None:
        """Ask, and where it does it itself have it approved, do it and say how it went."""
        asked = self.client.request(
            self.what, self.arguments, channel="#support", reason=self.reason
        )
        settle()
        if not self.result:
            return
        cleo, support = sandbox.person("cleo"), channel_named(sandbox, "support")
        thread = cleo.messages(support)[-1]["ts"]
        card = sandbox.wait(partial(card_with, cleo, support, thread, "approve"))
        sandbox.clock.advance(4 * 60)
        pressed(sandbox, cleo, support, card, "approve", settle)
        claimant = new_claimant()
        self.client.claim(asked.id, claimant)
        self.client.report(asked.id, claimant, succeeded=True, result=self.result)
        settle()


def past(url: str, record: Path) -> list[Asked]:
    """What a release job asked this morning, and what a help desk's agent asks just now."""
    release = Countersign(url, key_for("ci", "@ben", ["deploy_*"], record))
    desk = Countersign(url, key_for("help-desk", "@dan", ["refund_order"], record))
    refund = {"order_id": 1046, "amount": "12.00", "reason": "damaged"}
    return [
        Asked(
            release,
            5 * HOUR,
            DEPLOY,
            {"version": "2.7.1", "env": "prod"},
            "All tests are green.",
            "deployed in 41 s",
        ),
        Asked(desk, 6, "refund_order", refund, "The customer sent a picture of the broken lid."),
    ]


def key_for(name: str, person: str, tools: list[str], record: Path) -> str:
    """Make a key for a program, of the bot whose record that is."""
    return str(say_to_the_bot(KeyWanted(name, person, tuple(tools)), record).key)


def let_in(folder: Path, record: Path, variables: Mapping[str, str]) -> None:
    """Write what a program at another terminal needs: a key for Ben, and these variables."""
    given = {"COUNTERSIGN_API_KEY": key_for("terminal", "@ben", ["*"], record), **variables}
    file = folder / VARIABLES
    file.touch(0o600)
    file.write_text("".join(f"export {name}={shlex.quote(given[name])}\n" for name in given))
