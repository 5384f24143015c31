"""People write, change their minds, and click on what they see or saw, late and twice.

Every button is or was in Slack; an action of a person is a delivery, which others carry.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from bot.cards.action_names import Action, DialogId
from bot.cards.button_codec import (
    DIALOG_ACTIONS,
    HOME_PAGE_ACTIONS,
    LOOK_ACTIONS,
    CallTarget,
    CardTarget,
    Click,
    DialogSubject,
    decode_click,
    encode_dialog_metadata,
)
from storage.models import Delivery
from storage.states import DeliveryKind, Surface
from tests.authenticator import PRESENT, VERIFIED, Authenticator
from tests.proof.simulation.wire import Post, Slack
from tests.runs.fakes import ANA, BEN, BOT, CLEO, DAN, EVE, GUS

Json = dict[str, Any]
# Ana's counts its signatures: two in the wrong order look like a copied key
PASSKEYS = {who: Authenticator(step=int(who == ANA)) for who in (ANA, BEN, CLEO, DAN, EVE, GUS)}
OTHER_COMPANY = "T0OTHERCO"  # Eve's workspace
CLICKERS = (ANA, ANA, ANA, ANA, CLEO, CLEO, CLEO, CLEO, DAN, DAN, BEN, BEN, GUS, EVE)
ASKERS = (BEN, BEN, DAN, ANA)
WORDS = ("do it", "again", "do that", "something else", "more", "cancel", "help", "yes", "")
SAID_EXACTLY = ("cancel", "help", "yes", "")
PLACES = ("C0SUPPORT", "C0SUPPORT", "C0FINANCE")
NOT_STORED = LOOK_ACTIONS | HOME_PAGE_ACTIONS | {Action.FEEDBACK, Action.REQUEST, Action.ASK_AGAIN}
NOT_STORED |= {Action.OPEN_PAGE}
RECENT = 16  # the newest messages, which people still look at
WEIGHTS = {
    Action.APPROVE: 14,
    Action.APPROVE_ALL: 14,
    Action.REVIEW: 10,
    Action.EDIT: 5,
    Action.RETRY: 0,
    Action.CANCEL_RUN: 1,
    Action.WITHDRAW: 1,
    Action.REJECT_NOW: 3,
    Action.BREAK_GLASS: 60,
    Action.LOOKED_AT: 200,
    Action.OBJECT: 100,
}
DIALOGS = {
    Action.REVIEW: DialogId.REVIEW,
    Action.EDIT: DialogId.EDIT,
    Action.REJECT: DialogId.REJECT,
    Action.REJECT_ALL: DialogId.REJECT,
    Action.SEND_BACK: DialogId.SEND_BACK,
    Action.ANSWER: DialogId.ANSWER,
    Action.BREAK_GLASS: DialogId.BREAK_GLASS,
    Action.OBJECT: DialogId.OBJECT,
}


class People:
    """Everybody in the workspace."""

    def __init__(
        self,
        random: Random,
        slack: Slack,
        is_open: Callable[[str], bool],
        links: Callable[[], Sequence[Any]],
    ) -> None:
        """`is_open`: whether that call waits for people, who click such calls most.

        `links`: the newest rows of signing links.
        """
        self._random, self._slack, self._is_open = random, slack, is_open
        self._links, self._team, self._mark = links, slack.workspace.team, slack.workspace.mark
        self._number = 0
        self.threads: list[tuple[str, str, str]] = []  # channel, ts, person who began it
        self.said: list[tuple[str, str, str, str]] = []  # channel, ts, thread, person

    def act(self) -> list[Delivery]:
        """Somebody does something: nothing, one thing, or the same twice."""
        chance = self._random.random()
        if chance < 0.12 or not self.threads:
            made = self._say()
        elif chance < 0.14 and self.said:
            made = self._reword()
        elif chance < 0.4 and (links := self._links()):
            return [self._sign(self._random.choice(links))]
        else:
            made = self._click()
        if made is None:
            return []
        again = self._random.random()
        if again < 0.06:
            return [made, _copy_delivery(made)]  # Slack delivers it twice
        if again < 0.14 and made.kind is not DeliveryKind.MESSAGE:
            return [made, _copy_delivery(made, key=f"{made.key}:twice")]  # a double click
        return [made]

    def _say(self) -> Delivery:
        choose, ts = self._random.choice, self._slack.new_ts(said=True)
        person, text = choose(ASKERS), choose(WORDS)
        if self.threads and self._random.random() < 0.55:
            channel, thread, began = choose(self.threads[-4:])
            person = began if self._random.random() < 0.8 else person
        else:
            channel, thread = choose(PLACES), ts
            text = "do it"
            self.threads.append((channel, ts, person))
        self.said.append((channel, ts, thread, person))
        mention = f"<@{BOT}> " if thread == ts or self._random.random() < 0.6 else ""
        text += self._mark if text not in SAID_EXACTLY else ""
        event = _make_message(channel, ts, thread, person, mention + text)
        key = f"msg:{self._team}:{channel}:{ts}"
        return self._make_delivery(
            key, DeliveryKind.MESSAGE, person, channel, thread, {"event": event}
        )

    def _reword(self) -> Delivery:
        """Edit or delete one's own message."""
        channel, ts, thread, person = self._random.choice(self.said[-4:])
        self._number += 1
        was = _make_message(channel, ts, thread, person, f"<@{BOT}> do it{self._mark}")
        event: Json = {"type": "message", "channel": channel, "ts": self._slack.new_ts(said=True)}
        event |= {"previous_message": was}
        if self._random.random() < 0.5:
            event |= {"subtype": "message_deleted", "deleted_ts": ts}
        else:
            now = {**was, "text": f"<@{BOT}> do something else{self._mark}"}
            event |= {"subtype": "message_changed", "message": now}
        key = f"event:E{self._number}"
        return self._make_delivery(key, DeliveryKind.MESSAGE, "", channel, thread, {"event": event})

    def _sign(self, link: Any) -> Delivery:
        """Sign on the page; sometimes with another's passkey, or one that verifies nobody."""
        chance, person = self._random.random(), link["person"]
        key = PASSKEYS[person if chance < 0.9 else ANA]
        key.flags = PRESENT if chance > 0.95 else PRESENT | VERIFIED
        said = {"link": link["hash"], "call": link["call_id"]}
        said["credential"] = key.sign(hashlib.sha256(link["statement"].encode()).digest())
        kind = DeliveryKind.SIGNATURE
        made = self._make_delivery(f"sign:{link['hash']}", kind, person, "", "", said)
        made.team, made.surface = self._team, Surface.PAGE
        return made

    def _click(self) -> Delivery | None:
        """Click a button of a message as it is, or as it was before."""
        found = []
        for each in list(self._slack.posts.values())[-RECENT:]:
            blocks = each.blocks
            if each.before and self._random.random() < 0.2:
                blocks = self._random.choice(each.before)
            found += [(each, action, value) for action, value in iterate_buttons(blocks)]
        if not found:
            return None
        weights = [self._weigh(action, value) for _, action, value in found]
        post, action_id, value = self._random.choices(found, weights)[0]
        meant = decode_click(action_id, value)
        if not isinstance(meant, Click) or meant.action in NOT_STORED:
            return None
        self._number += 1
        person = self._random.choice(CLICKERS)
        if meant.action in DIALOG_ACTIONS:
            return self._submit(meant, person, post)
        element = {"type": "button", "action_id": action_id, "value": value}
        if action_id not in frozenset(Action):
            option = {"selected_option": {"value": value}}
            element = {"type": "overflow", "action_id": action_id, **option}
        place = {"channel_id": post.channel, "message_ts": post.ts}
        body = {"actions": [element], "container": place}
        key, thread = f"action:{self._number}", post.thread_ts
        return self._make_delivery(key, DeliveryKind.ACTION, person, post.channel, thread, body)

    def _weigh(self, action_id: str, value: str) -> int:
        """How likely people click this button: some more than others, and open calls most."""
        meant = decode_click(action_id, value)
        if not isinstance(meant, Click) or meant.action in NOT_STORED:
            return 1
        is_open = isinstance(meant.target, CallTarget) and self._is_open(meant.target.call)
        return 1 + WEIGHTS.get(meant.action, 2) * (30 if is_open else 3)

    def _submit(self, meant: Click, person: str, post: Post) -> Delivery | None:
        dialog = DIALOGS.get(meant.action)
        if dialog is None or not isinstance(meant.target, CallTarget | CardTarget):
            return None
        about = DialogSubject(dialog, meant.target)
        view = {
            "callback_id": dialog,
            "private_metadata": encode_dialog_metadata(about),
            "state": {"values": self._make_state(dialog)},
        }
        key, kind = f"submission:{self._number}", DeliveryKind.SUBMISSION
        return self._make_delivery(key, kind, person, post.channel, post.thread_ts, {"view": view})

    def _make_state(self, dialog: DialogId) -> Json:
        """What is entered in a dialog."""
        choose, mark = self._random.choice, self._mark
        words: Json = {"words": {"text": {"value": choose(("no", f"not so{mark}", ""))}}}
        match dialog:
            case DialogId.REJECT:
                option = {"value": choose(("other", "other", "not_needed", "odd"))}
                return {**words, "reason": {"preset": {"selected_option": option}}}
            case DialogId.EDIT:
                then = [{"value": "approve"}] if self._random.random() < 0.5 else []
                text = {"v": {"value": choose((f"a{mark}", f"edited{mark}", "x" * 501))}}
                return {"f:text": text, "then": {"v": {"selected_options": then}}}
            case DialogId.REVIEW:
                state: Json = {"note": {"text": {"value": choose(("", f"fine{mark}"))}}}
                if self._random.random() < 0.6:
                    state["remember"] = {"offer": {"selected_option": {"value": choose("01")}}}
                return state
            case DialogId.BREAK_GLASS:
                why = choose((*[f"all is down{mark}"] * 3, "now"))
                return {"words": {"text": {"value": why}}}
            case DialogId.ANSWER:
                return {"f:a0": {"v": {"value": choose((f"seven{mark}", ""))}}}
            case _:
                return words

    def _make_delivery(
        self, key: str, kind: DeliveryKind, user: str, channel: str, thread: str, body: Json
    ) -> Delivery:
        return Delivery(
            key=key,
            kind=kind,
            team=self._team if user != EVE else OTHER_COMPANY,
            user=user,
            channel=channel,
            thread_ts=thread,
            body=json.dumps(body),
        )


def iterate_buttons(blocks: Sequence[Json]) -> Iterator[tuple[str, str]]:
    """The id and value of each button, and of each choice of a menu."""
    for block in blocks:
        elements = list(block.get("elements") or [])
        elements += [block["accessory"]] if "accessory" in block else []
        for each in elements:
            action = str(each.get("action_id") or "")
            if each.get("type") == "button" and action:
                yield action, str(each.get("value") or "")
            for option in each.get("options") or []:
                yield action, str(option.get("value") or "")


def _make_message(channel: str, ts: str, thread: str, person: str, text: str) -> Json:
    made = {"type": "message", "user": person, "channel": channel, "ts": ts, "text": text}
    return made if thread == ts else {**made, "thread_ts": thread}


def _copy_delivery(row: Delivery, **other: str) -> Delivery:
    names = ("key", "kind", "team", "user", "channel", "thread_ts", "body")
    return Delivery(**{**{name: getattr(row, name) for name in names}, **other})
