"""The dialog in which a person chooses what to ask for. Pure: plain data in, a view out.

Choosing tells the app at once; the form then takes this dialog's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.messages.actions.codec import Subject, encode, encode_dialog
from bot.messages.actions.names import Action, Block, Dialog
from bot.messages.actions.targets import FormKind, FormTarget, Setting
from bot.messages.answers import notice_blocks
from bot.messages.parts import Json, actions, button, plain_text, section
from bot.messages.sentences import requests
from bot.messages.text import plain, slack_length, visible

MOST = 100  # options of one menu, in all its groups together
LABEL = 75  # characters of an option
_GROUPS = {
    "template": "Prepared",
    "write": "Changes something",
    "destructive": "Cannot be undone",
    "": "Not known whether it can be undone",
    "read": "Looks something up",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """Something that a person may ask for."""

    kind: FormKind
    name: str
    title: str
    does: str  # read | write | destructive, "" where nobody has said

    @property
    def group(self) -> str:
        """Under which heading it stands."""
        return self.does if self.kind is FormKind.TOOL else str(self.kind)


def picker_modal(choices: Sequence[Choice], setting: Setting) -> Json:
    """Build the dialog; what finds no room in the menu is to be asked for by its name."""
    kept = choices[:MOST]
    menu: Json = {
        "type": "static_select",
        "action_id": Action.PICK,
        "placeholder": plain_text("Choose, or type to search"),
        "option_groups": _grouped(kept),
    }
    lead = "Choose a request. Approvers see everything you enter."
    blocks: list[Json] = [{**section(Block.PICKER, plain_text(lead)), "accessory": menu}]
    if more := len(choices) - len(kept):
        left = f"There are {more} more: write their name behind /approvals request."
        blocks.append(section(f"{Block.PICKER}:more", plain_text(left)))
    return {
        "type": "modal",
        "callback_id": Dialog.PICK,
        "private_metadata": encode_dialog(Subject(Dialog.PICK, setting)),
        "title": plain_text("New request"),
        "close": plain_text("Cancel"),
        "blocks": blocks,
    }


def invitation(person: str, channel: str) -> tuple[str, list[Json]]:
    """Return the words and blocks that show somebody how to ask with a form; `channel`: where."""
    text, ask = requests.no_model(person), button(Action.REQUEST, "Ask", Setting(channel))
    return text, [*notice_blocks(text), actions(f"{Block.PICKER}:ask", [ask])]


def _grouped(choices: Sequence[Choice]) -> list[Json]:
    groups = [
        (label, [_option(each) for each in choices if each.group == group])
        for group, label in _GROUPS.items()
    ]
    return [{"label": plain_text(label), "options": found} for label, found in groups if found]


def _option(choice: Choice) -> Json:
    title = " ".join(visible(choice.title).split()) or choice.name
    shown = plain(title, LABEL) if slack_length(title) > LABEL else title
    return {
        "text": plain_text(shown),
        "value": encode(FormTarget(choice.kind, choice.name)),
    }
