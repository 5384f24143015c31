"""Whatever Slack may deliver from another workspace is acknowledged, and nothing comes of it. There
is a row for each event, button, choice, dialog, shortcut and command.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from slack_bolt import BoltRequest, BoltResponse

from bot.cards.action_names import OVERFLOW_MENU_ACTION_ID, Action, DialogId, ShortcutId
from bot.cards.button_codec import (
    _TARGET_TYPE_BY_ACTION,
    CallTarget,
    CardTarget,
    Click,
    DelegationTarget,
    DialogSubject,
    FormContext,
    FormSource,
    FormTarget,
    HomeTabTarget,
    ModelAnswerRating,
    NoTarget,
    PasskeyTarget,
    RunTarget,
    encode_button_value,
    encode_dialog_metadata,
)
from bot.slack.command_answers import SLASH_COMMAND
from bot.slack.listeners import SUBSCRIBED_EVENTS
from slack_sandbox.workspace.people import TEAM
from slack_sandbox.workspace.records import Delivery as Sent
from storage.delegations import Delegation
from storage.grants import Grant
from storage.models import Call, Delivery, Plan, Run, Vote
from tests.stories import harness as shared
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import arrived, ask_for

POLICY = shared.POLICY.read_text("utf-8")  # for a harness of its own: nobody has opened Home
ANA, BEN = "UANA00001", "UBEN00001"
Json = dict[str, Any]
# workspaces and organisations that are not ours
FOREIGN = {
    "another workspace": {"team_id": "T0ELSEWHERE", "enterprise_id": None},
    "another organisation": {"team_id": "T0ELSEWHERE", "enterprise_id": "E0ELSEWHERE"},
    "a whole organisation": {"team_id": None, "enterprise_id": "E0ELSEWHERE"},
}
OUR_WORKSPACE = {"team_id": TEAM, "enterprise_id": None}
UNSUBSCRIBED = ("close", "options")  # Slack sends these only to apps that ask for them
# methods that only a payload of our workspace may make the bot call
ACTS = ("chat.postMessage", "chat.update", "chat.delete", "chat.startStream", "reactions", "views")


@dataclass(frozen=True)
class Row:
    """One payload: how it arrives, and its content."""

    name: str
    kind: str  # events_api, interactive or slash_commands
    body: Json


@dataclass(frozen=True)
class About:
    """The waiting request that all payloads are about."""

    thread: str
    card: str
    run: str
    plan: str
    call: str
    number: int  # of its card in the outbox

    def target(self, action: Action) -> Any:
        """The target of a button of that name."""
        return {
            CallTarget: CallTarget(self.call, 0),
            CardTarget: CardTarget(self.plan, 0, self.number),
            RunTarget: RunTarget(self.run),
            ModelAnswerRating: ModelAnswerRating(self.run, good=True),
            FormContext: FormContext(SUPPORT),
            FormTarget: FormTarget(FormSource.TOOL, "note", FormContext(SUPPORT)),
            DelegationTarget: DelegationTarget("d1"),
            HomeTabTarget: HomeTabTarget(),
            PasskeyTarget: PasskeyTarget("p1"),
            NoTarget: NoTarget(),
        }[_TARGET_TYPE_BY_ACTION[action]]


def list_events(about: About) -> Iterator[tuple[str, Json]]:
    """Every event that the app subscribes to, each with an effect if it were ours."""
    place = {"channel": SUPPORT, "thread_ts": about.thread}
    asks = {"user": BEN, "channel": SUPPORT, "text": "<@UBOT00001> from elsewhere"}
    group = {"id": "S0LEADS", "handle": "shop-leads", "users": [BEN]}
    stands = {"user": BEN, "ts": about.thread, "text": "<@UBOT00001> stop"}
    whole: dict[str, Json] = {
        "agent_session_stopped": {"user": BEN, **place},
        "app_home_opened": {"user": ANA, "tab": "home", "channel": "D0ANA"},
        "app_mention": {**asks, "ts": "1900000000.000100"},
        "app_uninstalled": {},
        "tokens_revoked": {"tokens": {"bot": ["UBOT00001"]}},
        "channel_created": {"channel": {"id": SUPPORT, "name": "support"}},
        "channel_id_changed": {"old_channel_id": SUPPORT, "new_channel_id": "C0HIJACK"},
        "channel_rename": {"channel": {"id": SUPPORT, "name": "finance"}},
        "group_rename": {"channel": {"id": SUPPORT, "name": "finance"}},
        "channel_shared": {"channel": SUPPORT, "connected_team_id": "T0OTHERCO"},
        "member_joined_channel": {"user": BEN, "channel": SUPPORT},
        "member_left_channel": {"user": ANA, "channel": SUPPORT},
        "subteam_created": {"subteam": group},
        "subteam_updated": {"subteam": group},
        "subteam_members_changed": {"subteam_id": "S0LEADS", "added_users": [BEN]},
        "user_change": {"user": {"id": BEN, "deleted": True}},
    }
    for name in SUBSCRIBED_EVENTS:
        if name in whole:
            yield name, {"type": name, **whole[name]}
        else:
            kind = name.partition(".")[2].removesuffix("s")
            said = {**asks, "channel_type": kind, "ts": f"19000000{len(kind):02}.000200"}
            yield name, {"type": "message", **said}
    changed = {"type": "message", "channel": SUPPORT, "hidden": True, "previous_message": stands}
    edited = {**stands, "edited": {"user": BEN, "ts": "1900000001.0"}}
    yield "an edit", {**changed, "subtype": "message_changed", "message": edited}
    yield "a deletion", {**changed, "subtype": "message_deleted", "deleted_ts": about.thread}
    yield "a stop", {"type": "message", **asks, "text": "stop", "ts": "1900000002.0", **place}
    yield "a DM opened", {**whole["app_home_opened"], "tab": "messages", "type": "app_home_opened"}


def list_elements(about: About) -> Iterator[tuple[str, Json]]:
    """Every button, and every choice of the card's menu."""
    for action in Action:
        target = about.target(action)
        yield action, {"type": "button", "action_id": action, "value": encode_button_value(target)}
        chosen = {"value": encode_button_value(Click(action, target))}
        option = {
            "type": "overflow",
            "action_id": OVERFLOW_MENU_ACTION_ID,
            "selected_option": chosen,
        }
        yield f"{OVERFLOW_MENU_ACTION_ID}: {action}", option


def list_dialogs(about: About) -> Iterator[tuple[str, Json]]:
    """Every dialog, filled in such that it would have an effect if it were ours."""
    call = CallTarget(about.call, 0)
    subjects = {
        DialogId.REVIEW: call,
        DialogId.EDIT: call,
        DialogId.REJECT: call,
        DialogId.SEND_BACK: call,
        DialogId.HAND_OVER: call,
        DialogId.BREAK_GLASS: call,
        DialogId.OBJECT: call,
        DialogId.PICK: FormContext(SUPPORT),
        DialogId.REQUEST: FormTarget(FormSource.TOOL, "note", FormContext(SUPPORT)),
        DialogId.ANSWER: call,
        DialogId.DELEGATE: NoTarget(),
        DialogId.RENAME_PASSKEY: PasskeyTarget("p1"),
    }
    text = {"type": "plain_text_input", "value": "from elsewhere"}
    typed = {"f:text": {"v": text}, "words": {"text": text}, "reason": {"preset": text}}
    for dialog in DialogId:
        yield (
            dialog,
            {
                "id": f"V0{dialog}",
                "type": "modal",
                "hash": "h",
                "callback_id": dialog,
                "private_metadata": encode_dialog_metadata(DialogSubject(dialog, subjects[dialog])),
                "state": {"values": typed},
                "blocks": [{"type": "input", "block_id": each, "element": text} for each in typed],
            },
        )


def list_interactions(about: About, whose: Json) -> Iterator[tuple[str, Json]]:
    """Every click, submission, shortcut and menu query."""
    team, enterprise = whose["team_id"], whose["enterprise_id"]
    base = {
        "team": {"id": team} if team else None,
        "enterprise": {"id": enterprise} if enterprise else None,
        "is_enterprise_install": team is None,
        "user": {"id": ANA, "name": "ana", **({"team_id": team} if team else {})},
        "trigger_id": "1.2.3",
    }
    message = {"ts": about.card, "thread_ts": about.thread, "text": "t"}
    place = {"channel": {"id": SUPPORT}, "message": message, "response_url": "http://127.0.0.1:9/"}
    at = {"type": "message", "channel_id": SUPPORT, "message_ts": about.card}
    for number, (name, element) in enumerate(list_elements(about)):
        clicked = {"block_id": "b", "action_ts": f"1900000000.{number:06}", **element}
        kind = {"type": "block_actions", "container": at, "actions": [clicked]}
        yield f"click {name}", {**base, **place, **kind}
    for name, view in list_dialogs(about):
        yield f"submit {name}", {**base, "type": "view_submission", "view": view}
        yield f"close {name}", {**base, "type": "view_closed", "view": view, "is_cleared": True}
    for each in ShortcutId:
        yield f"shortcut {each}", {**base, "type": "shortcut", "callback_id": each}
        of_message = {"type": "message_action", "callback_id": each, "message_ts": about.card}
        yield f"message shortcut {each}", {**base, **place, **of_message}
    asked = {"action_id": "person", "block_id": "b", "value": "a", "container": at}
    yield "options", {**base, **place, "type": "block_suggestion", **asked}


def table(about: About, whose: Json) -> list[Row]:
    """Every payload, from that workspace."""
    team, enterprise = whose["team_id"], whose["enterprise_id"]
    made = [
        Row(
            f"event {name}",
            "events_api",
            {
                "type": "event_callback",
                "team_id": team,
                "context_team_id": team,
                "context_enterprise_id": enterprise,
                "authorizations": [whose | {"user_id": "UBOT00001", "is_bot": True}],
                "event_id": f"Ev{number}{team}{enterprise}",
                "event_time": 1_900_000_000,
                "event": {"event_ts": "1900000000.0001", **event},
            },
        )
        for number, (name, event) in enumerate(list_events(about))
    ]
    made += [Row(name, "interactive", body) for name, body in list_interactions(about, whose)]
    command = {
        "command": SLASH_COMMAND,
        "text": "list",
        "user_id": ANA,
        "channel_id": SUPPORT,
        **whose,
    }
    command |= {"trigger_id": "1.2.3", "response_url": "http://127.0.0.1:9/"}
    return [*made, Row("the command", "slash_commands", command)]


@pytest.fixture
def about(harness: Harness) -> About:
    """A request of Ben's that waits for Ana."""
    thread, card = ask_for(harness, "asked at home")
    harness.settle()
    [call] = harness.calls_in(thread)
    return About(thread, card["ts"], call.run_id, call.plan_id, call.id, 1)


def dump_decisions(harness: Harness) -> str:
    """Everything that people have asked, decided and granted, as JSON."""
    kinds: tuple[type[Any], ...] = (Run, Call, Plan, Vote, Grant, Delegation)
    return json.dumps(
        [each.model_dump(mode="json") for kind in kinds for each in harness.all(kind)], default=str
    )


FOREIGN_CASES = [
    pytest.param(each, id=name, marks=[] if name == "another workspace" else [pytest.mark.long])
    for name, each in FOREIGN.items()
]


@pytest.mark.parametrize("whose", FOREIGN_CASES)
def test_a_payload_of_another_workspace_has_no_effect(
    harness: Harness, about: About, whose: Json, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is decided, begun, shown or opened, and no event or dialog is stored."""
    before, seen = dump_decisions(harness), len(harness.slack.requests)
    stored = len(harness.all(Delivery))
    app, wrong = harness.slack.world.app, []
    for row in table(about, whose):
        sent = Sent(row.kind, {"api_app_id": app.id, "token": "t", **row.body}, app)
        harness.slack.world.send(sent)
        if not row.name.startswith(UNSUBSCRIBED) and sent.wait() != "acked":
            wrong.append((row.name, sent.outcome))
        arrived(harness)
        if dump_decisions(harness) != before:
            wrong.append((row.name, "changes something"))
            before = dump_decisions(harness)
        if len(harness.all(Delivery)) != stored and not row.name.startswith("click"):
            wrong.append((row.name, "is stored"))
        stored = len(harness.all(Delivery))
        acts = [each for each in harness.slack.requests[seen:] if each.method.startswith(ACTS)]
        wrong += [(row.name, each.method) for each in acts]
        seen = len(harness.slack.requests)
    assert "\n".join(map(str, wrong)) == ""
    assert "Traceback" not in caplog.text


def test_every_listener_has_a_payload_in_the_table(harness: Harness, about: About) -> None:
    """A listener without one would not be tried by the test above."""
    requests = [
        BoltRequest(body=row.body, mode="socket_mode") for row in table(about, OUR_WORKSPACE)
    ]
    for each in requests:
        each.context["logger"] = None
    nothing = BoltResponse(status=200)
    idle = [
        listener
        for listener in harness.app.bolt._listeners
        if not any(listener.matches(req=each, resp=nothing) for each in requests)
    ]
    assert [each.ack_function for each in idle] == []
    assert harness.app.bolt._listeners
