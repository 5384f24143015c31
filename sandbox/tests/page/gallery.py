"""A sandbox, an app and a browser: post blocks, use what is drawn, read what the app gets.

One for a whole module. Every post goes through the real Web API; nothing is asked of the page's
insides.
"""

from __future__ import annotations

import copy
from typing import Any

from sandbox.tests.blockkit.gallery.builders import input_block
from sandbox.tests.blockkit.gallery.elements import INPUTS
from slack_sandbox.server import Sandbox

from . import samples
from .page import MAIN, MODAL, Page
from .recording_app import RecordingApp

Json = dict[str, Any]
SUPPORT = "C0SUPPORT"
OFFERED = [{"text": samples.plain(f"Order {n}"), "value": str(n)} for n in (7, 8, 42)]


def sample_input(name: str, block_id: str, **more: Any) -> Json:
    """An input block with that sample of the gallery."""
    return input_block(copy.deepcopy(INPUTS[name]), block_id=block_id, **more)


class Gallery:
    """`post`, `modal` and `home` show blocks to Ben; `sent` is what the app got."""

    def __init__(self, sandbox: Sandbox, app: RecordingApp, page: Page) -> None:
        self.sandbox, self.app, self.page = sandbox, app, page
        self.asked: list[Json] = []  # the block_suggestion payloads
        app.answer = self._answer
        self.css = MAIN  # the selector of the blocks under test
        self._view: Json | None = None
        self._marked = 0

    def _answer(self, payload: Json) -> Json | None:
        if payload["type"] == "block_suggestion":
            self.asked.append(payload)
            return {
                "options": [o for o in OFFERED if payload["value"] in o["text"]["text"].lower()]
            }
        if self._view is not None and [a["action_id"] for a in payload.get("actions", [])] == [
            "open-it"
        ]:
            self.app.client.views_open(trigger_id=payload["trigger_id"], view=self._view)
        return None

    def look(self, theme: str = "light", width: int = 1280) -> None:
        """Load the page as Ben in #support."""
        self.page.size(width, 900)
        self.page.open(self.sandbox.url, "ben", SUPPORT, theme)

    def ready(self) -> bool:
        """Whether the page is loaded and nothing covers it."""
        return bool(self.page.all(MAIN)) and not self.page.all("dialog[open]")

    def post(self, *blocks: Json, channel: str = SUPPORT, text: str = "a card") -> str:
        """Post a message; returns the selector of its drawing."""
        answer = self.app.client.chat_postMessage(
            channel=channel, text=text, blocks=copy.deepcopy(list(blocks))
        )
        return f'{MAIN} [data-ts="{answer["ts"]}"]'

    def shown(self, *blocks: Json) -> str:
        """Post a message and wait until it is drawn; returns its selector."""
        css = self.post(*blocks)
        self.page.one(css)
        return css

    def modal(self, *blocks: Json, title: str = "A modal") -> str:
        """Open a modal with those blocks; returns the selector of its body."""
        self._view = samples.modal(*copy.deepcopy(list(blocks)), title=title)
        css = self.shown(samples.actions(samples.button("Open", "open-it")))
        self.page.press(f"{css} [data-action-id=open-it]")
        self.page.modal(title)
        return MODAL

    def sent(self, count: int) -> Json:
        """The newest interactive payload, once there are `count` more than at the last `mark`."""
        self.sandbox.wait(lambda: len(self._clicks()) >= self._marked + count)
        assert len(self._clicks()) == self._marked + count, self._clicks()[self._marked :]
        return self._clicks()[-1]

    def submitted(self) -> Json:
        """Submit the modal, wait until it is closed; return the states of its inputs, by block."""
        self.mark()
        self.page.submit()
        values = self.sent(1)["view"]["state"]["values"]
        self.page.gone(MODAL)
        return {block: next(iter(states.values())) for block, states in values.items()}

    def focus(self, css: str) -> None:
        """Focus the displayed element of that selector."""
        self.page.driver.execute_script("arguments[0].focus()", self.page.one(css))

    def keys(self, *keys: str) -> None:
        """Press keys in the focused element."""
        self.page.driver.switch_to.active_element.send_keys(*keys)

    def mark(self) -> None:
        """Make `sent` count payloads from here on."""
        self._marked = len(self._clicks())

    def action(self) -> Json:
        """The one action sent since `mark`, without ids and time."""
        (action,) = self.sent(1)["actions"]
        return {
            key: action[key] for key in action if key not in ("action_ts", "action_id", "block_id")
        }

    def takes_files(self) -> bool:
        """Whether people of this sandbox can upload files."""
        script = "fetch('/sandbox/upload', {method: 'POST'}).then((r) => arguments[0](r.status))"
        return self.page.driver.execute_async_script(script) != 404

    def _clicks(self) -> list[Json]:
        return [p for p in self.app.seen if p["type"] != "block_suggestion"]
