"""A workspace for the page's shell: two apps, and a few messages.

The apps have commands, shortcuts and Home tabs.
"""

from __future__ import annotations

from slack_sandbox.server import Sandbox
from slack_sandbox.setup.manifests import full_manifest

from . import samples
from .recording_app import RecordingApp

Json = samples.Json
SUPPORT = "C0SUPPORT"
COMMANDS = [
    {"command": "/deploy", "description": "Ship a release", "usage_hint": "[place]"},
    {"command": "/refund", "description": "Ask for a refund", "usage_hint": "[order]"},
]
SHORTCUTS = [
    {
        "type": "global",
        "name": "New request",
        "callback_id": "new_request",
        "description": "Ask for anything",
    },
    {
        "type": "message",
        "name": "Make a request of it",
        "callback_id": "from_message",
        "description": "As it stands",
    },
]


class Workspace:
    """`sandbox` with an app at its `app`; the second app, Weather, has no connection."""

    def __init__(self) -> None:
        manifest = full_manifest()
        manifest["features"] |= {"slash_commands": COMMANDS, "shortcuts": SHORTCUTS}
        self.sandbox = Sandbox(manifest)
        self.sandbox.start()
        self.app = RecordingApp(self.sandbox)
        self.app.answer = self._answer
        self.app.start()
        self.client = self.app.client
        self.weather = self.sandbox.install(_weather(), ["#support"])

    def close(self) -> None:
        """Stop the app, then the sandbox."""
        self.app.stop()
        self.sandbox.stop()

    def _answer(self, payload: Json) -> Json | None:
        """Every shortcut and every button of a message opens a modal."""
        if payload["type"] in ("shortcut", "message_action") or "message" in payload:
            view = samples.modal(
                samples.field("reason", {"type": "plain_text_input"}), title="A request"
            )
            self.client.views_open(trigger_id=payload["trigger_id"], view=view)
        return None

    def furnish(self) -> str:
        """Post a message of every kind in #support.

        Returns the ts of a message with a thread.
        """
        ana, ben = self.sandbox.person("ana"), self.sandbox.person("ben")
        for n in range(12):
            (ana, ben)[n % 2].say("#support", f"Message {n} " + "with some more words " * n)
        root = ben.say("#support", "Can somebody look at order 1042? @ana")
        self.client.chat_postMessage(channel=SUPPORT, thread_ts=root, text="I am on it")
        for person in (ana, ben):
            person.react("#support", root, "eyes")
        self.client.pins_add(channel=SUPPORT, timestamp=root)
        self.client.bookmarks_add(
            channel_id=SUPPORT, title="Runbook", type="link", link="https://example.com/"
        )
        self.client.files_upload_v2(
            channel=SUPPORT,
            filename="orders.csv",
            content='order,customer\n1042,"Lindqvist, Mara"\n',
            title="Orders",
        )
        self.client.chat_postMessage(channel=SUPPORT, text="A card", blocks=samples.CARD)
        self.client.chat_postEphemeral(channel=SUPPORT, user=ben.id, text="Only for Ben")
        self.client.chat_postMessage(channel=ben.dm_channel, text="A word in *private*")
        self.client.views_publish(user_id=ben.id, view=HOME)
        return root


def _weather() -> Json:
    return {
        "display_information": {"name": "Weather"},
        "features": {
            "bot_user": {"display_name": "weather"},
            "app_home": {"home_tab_enabled": True},
        },
        "oauth_config": {"scopes": {"bot": ["chat:write"]}},
    }


HOME: Json = {
    "type": "home",
    "blocks": [
        {"type": "header", "text": samples.plain("Your requests")},
        samples.actions(samples.button("Refresh", "refresh")),
    ],
}
