"""Channel modes: anyone may tighten one, only people the policy names may loosen it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bot.demo.model_server import Turn
from bot.tools import ToolContext, agent_tool
from storage import channel_modes
from storage.channel_modes import EVERYWHERE
from storage.models import Audit, Delivery, ModeSwitch, Run
from storage.states import CallStatus, ChannelMode, DeliveryKind, RunSource, Surface
from tests.stories.fakes import FakeTools
from tests.stories.forms import form, request, root
from tests.stories.harness import GENERAL, PARTNERS, SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import arrived, ask, cards_of, menu, now_at, statuses, typed, vote
from tests.stories.sub_agents import Errand
from tests.stories.test_commands import asked

C = CallStatus


@agent_tool(title="Look desk", effect="{task}", prompt="You see to things.", tools=("put", "peek"))
def look_desk(args: Errand, context: ToolContext) -> str:
    """Sees to things."""
    return args.task


TOOLS = [look_desk]
POLICY = """
[defaults]
approvers = ["@shop-leads"]

[modes]
loosen = ["@shop-leads"]

[[rule]]
name = "put is free"
tool = "put"
verdict = "allow"

[[rule]]
name = "partners"
tool = "wipe"
when = 'channel == "C0PARTNER"'
verdict = "deny"
reason = "not for partners"

[[rule]]
name = "notes may be remembered"
tool = "note"
verdict = "ask"
remember = [{ fields = ["text"], where = "everywhere" }]

[[rule]]
name = "asked once"
tool = "async_note"
verdict = "once"
"""


def mode(harness: Harness, line: str, who: str, part: str, channel: str = SUPPORT) -> None:
    """Have someone give the mode command with these words, and wait for the reply with `part`."""
    person = harness.person(who)
    before = {m["ts"] for m in person.everything(channel)}
    person.command(channel, f"/approvals mode {line}".strip())

    def has_reply() -> bool:
        new = [m for m in person.everything(channel) if m["ts"] not in before]
        return any(m.get("is_ephemeral") and part in words(m) for m in new)

    harness.slack.wait(has_reply)
    arrived(harness)


@pytest.fixture(autouse=True)
def _restore_ask_mode(harness: Harness) -> Iterator[None]:
    """Set the mode back to ask after every story."""
    yield
    if harness.all(ModeSwitch, ModeSwitch.channel == EVERYWHERE):
        mode(harness, "ask everywhere", "ana", "ask mode")
    for channel in (SUPPORT, GENERAL, PARTNERS):
        if harness.all(ModeSwitch, ModeSwitch.channel == channel):
            mode(harness, "ask", "ana", "ask mode", channel)


def test_in_observe_mode_only_reads_run(harness: Harness, fakes: FakeTools) -> None:
    """A write that policy allows is refused, and the thread says who set the mode."""
    mode(harness, "observe", "ben", "observe mode now")
    thread = ask(harness, ("put", {"text": "not in observe"}))
    harness.said(SUPPORT, thread, "observe mode")
    assert statuses(harness, thread)[0] is C.REFUSED
    assert not fakes.did("put", "not in observe")
    shown = [m for m in harness.person("ana").everything(SUPPORT) if "set this channel" in words(m)]
    assert "Ben Okafor" in words(shown[-1])


def test_in_strict_mode_an_allowed_call_needs_approval(harness: Harness, fakes: FakeTools) -> None:
    """The default approvers are asked, and the card says why; in other channels it runs."""
    mode(harness, "strict", "ben", "strict mode now")
    thread = ask(harness, ("put", {"text": "asked in strict"}))
    card = harness.card(SUPPORT, thread)
    assert "strict mode" in words(card)
    assert not fakes.did("put", "asked in strict")
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("put", "asked in strict") == 1
    elsewhere = ask(harness, ("put", {"text": "free elsewhere"}), channel=GENERAL)
    harness.said(GENERAL, elsewhere, "That is all.")
    assert fakes.did("put", "free elsewhere") == 1


def test_only_people_named_by_the_policy_may_loosen_a_mode(harness: Harness) -> None:
    """Anyone may tighten it; switches and refused switches are both in the audit."""
    mode(harness, "strict", "ben", "strict mode now")
    mode(harness, "ask", "ben", "cannot loosen")
    mode(harness, "", "ben", "in strict mode")
    mode(harness, "ask", "cleo", "ask mode now")
    found = harness.all(ModeSwitch, ModeSwitch.channel == SUPPORT)
    assert [(each.mode, each.person) for each in found[-2:]] == [
        (ChannelMode.STRICT, "UBEN00001"),
        (ChannelMode.ASK, "UCLEO0001"),
    ]
    events = [row.event for row in harness.all(Audit) if row.event.startswith("mode.")]
    assert events[-3:] == ["mode.switched", "mode.refused", "mode.switched"]


def test_observe_mode_stops_calls_approved_before_it(harness: Harness, fakes: FakeTools) -> None:
    """The mode is checked again before a call runs."""
    thread = ask(
        harness, ("note", {"text": "approved first"}), ("note", {"text": "approved second"})
    )
    card = harness.card(SUPPORT, thread)
    vote(harness, "ana", card)
    assert statuses(harness, thread) == [C.APPROVED, C.PENDING]
    mode(harness, "observe", "dan", "observe mode now")
    vote(harness, "ana", now_at(harness, SUPPORT, card["ts"]))
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [C.INVALIDATED, C.INVALIDATED]
    assert not fakes.did("note", "approved first")


def test_strict_mode_asks_for_calls_allowed_before_it(harness: Harness, fakes: FakeTools) -> None:
    """A call that policy allowed waits for its plan; the channel turns strict meanwhile."""
    thread = ask(harness, ("put", {"text": "was allowed"}), ("note", {"text": "holds it up"}))
    card = harness.card(SUPPORT, thread)
    mode(harness, "strict", "ben", "strict mode now")
    vote(harness, "ana", card)
    new_card = harness.slack.wait(
        lambda: next(
            (
                m
                for m in harness.thread(SUPPORT, thread)
                if "was allowed" in words(m) and '"approve"' in words(m)
            ),
            None,
        )
    )
    assert not fakes.did("put", "was allowed")
    vote(harness, "ana", new_card)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("put", "was allowed") == 1


def test_a_channel_keeps_its_mode_when_its_id_changes(harness: Harness) -> None:
    """A strict channel stays strict under the new id that Slack gives it."""
    store, team = harness.app.core.store, harness.app.core.identity.team
    now = harness.clock.now()
    with store.write() as tx:
        channel_modes.switch_mode(tx, team, "C0OLD", ChannelMode.STRICT, "UBEN00001", at=now)
        channel_modes.change_channel_id(tx, team, "C0OLD", "C0NEW", at=now)
        assert channel_modes.get_current_channel_mode(tx, team, "C0NEW") is ChannelMode.STRICT


def test_a_question_is_asked_in_every_mode(harness: Harness) -> None:
    """A question changes nothing, so it is asked in observe mode too."""
    mode(harness, "observe", "ben", "observe mode now")
    thread = ask(harness, ("ask_person", {"question": "Is it raining?", "kind": "yes_no"}))
    harness.card(SUPPORT, thread, "ben", "choose_1")
    assert statuses(harness, thread) == [C.PENDING]


def test_a_request_moved_to_a_dm_keeps_the_channel_mode(harness: Harness, fakes: FakeTools) -> None:
    """It was asked in a shared channel in observe mode."""
    mode(harness, "observe", "ben", "observe mode now", PARTNERS)
    ask(harness, ("put", {"text": "moved to a DM"}), channel=PARTNERS)
    ben = harness.person("ben")

    def refused() -> bool:
        return any("observe mode" in words(m) for m in ben.everything(ben.dm_channel))

    harness.slack.wait(refused)
    root = next(m for m in ben.messages(ben.dm_channel) if "You asked in" in words(m))
    assert "👀 observe mode" in words(root)
    assert not fakes.did("put", "moved to a DM")


def ask_and_move_to_dm(harness: Harness, *calls: tuple[str, dict[str, str]]) -> str:
    """Ben asks in the shared channel and it goes on in his direct messages, in this thread."""
    ben = harness.person("ben")
    before = {m["ts"] for m in ben.messages(ben.dm_channel)}
    ask(harness, *calls, channel=PARTNERS)

    def root() -> str:
        new = [m for m in ben.messages(ben.dm_channel) if m["ts"] not in before]
        return next((m["ts"] for m in new if "You asked in" in words(m)), "")

    thread: str = harness.slack.wait(root)
    harness.said(ben.dm_channel, thread, "That is all.")
    harness.settle()
    return thread


def ask_in_dm_thread(harness: Harness, thread: str) -> None:
    """Ben asks again in the thread in his direct messages."""
    ben = harness.person("ben")
    ben.say(ben.dm_channel, "and now", thread)


def ask_at_terminal(harness: Harness, thread: str) -> None:
    """Ben asks again in that thread at the operator's terminal."""
    row = Delivery(
        key=f"typed:{thread}",
        kind=DeliveryKind.TYPED,
        team=harness.app.core.identity.team,
        user="UBEN00001",
        channel=harness.person("ben").dm_channel,
        thread_ts=thread,
        body=json.dumps(
            {"event": {"text": "and now", "ts": f"{harness.clock.now().timestamp():.6f}"}}
        ),
        surface=Surface.TERMINAL,
    )
    harness.app.listeners.store_delivery(row)


def ask_after_restart(harness: Harness, thread: str) -> None:
    """Ben asks again in that thread after the bot has restarted."""
    harness.restart()
    ask_in_dm_thread(harness, thread)


@pytest.mark.parametrize("ask_again", [ask_in_dm_thread, ask_at_terminal, ask_after_restart])
def test_a_later_request_in_the_dm_thread_keeps_the_channels_mode(
    harness: Harness, fakes: FakeTools, ask_again: Callable[[Harness, str], None]
) -> None:
    """The thread began in a channel in observe mode, so a later write is refused too."""
    mode(harness, "observe", "ben", "observe mode now", PARTNERS)
    thread = ask_and_move_to_dm(harness, ("peek", {"text": "first"}))
    text = f"second, {ask_again.__name__}"
    harness.planner.script(Turn(calls=[("put", {"text": text})]), Turn(text="Not done."))
    ask_again(harness, thread)
    harness.said(harness.person("ben").dm_channel, thread, "Not done.")
    harness.settle()
    assert not fakes.did("put", text)
    assert harness.run_in(thread).asked_in == PARTNERS


def test_a_sub_agent_keeps_its_requests_channel_mode(harness: Harness, fakes: FakeTools) -> None:
    """The request has moved to direct messages."""
    mode(harness, "observe", "ben", "observe mode now", PARTNERS)
    harness.planner.script(
        Turn(calls=[("look_desk", {"task": "see to it"})]),
        Turn(calls=[("put", {"text": "by the sub-agent"})]),
        Turn(text="Could not."),
        Turn(text="That was it."),
    )
    harness.person("ben").say(PARTNERS, "@bot please")
    ben = harness.person("ben")

    def ended() -> bool:
        return any("That was it." in words(m) for m in ben.everything(ben.dm_channel))

    harness.slack.wait(ended)
    harness.settle()
    assert not fakes.did("put", "by the sub-agent")
    [child] = harness.all(Run, Run.source == RunSource.RUN)
    assert child.asked_in == PARTNERS


def test_a_channel_rule_applies_to_a_request_in_a_dm(harness: Harness, fakes: FakeTools) -> None:
    """It holds for all that was asked in the channel, also where it has moved to a DM."""
    thread = ask_and_move_to_dm(harness, ("wipe", {"text": "partners may not"}))
    harness.planner.script(Turn(calls=[("wipe", {"text": "nor now"})]), Turn(text="No."))
    ask_in_dm_thread(harness, thread)
    harness.said(harness.person("ben").dm_channel, thread, "No.")
    harness.settle()
    assert statuses(harness, thread) == [C.REFUSED, C.REFUSED]


def test_a_form_keeps_the_mode_of_its_channel(harness: Harness, fakes: FakeTools) -> None:
    """It was opened in the channel, and its request goes on in a direct message."""
    mode(harness, "observe", "ben", "observe mode now", PARTNERS)
    form(harness, "put", channel=PARTNERS)
    ben = harness.person("ben")
    assert ben.submit(typed(text="a form in a DM"))["outcome"] == "closed"

    def refused() -> bool:
        return any("is in observe mode" in words(m) for m in ben.everything(ben.dm_channel))

    harness.slack.wait(refused)
    root(harness, "a form in a DM", ben.dm_channel)
    assert not fakes.did("put", "a form in a DM")


def test_asking_again_keeps_the_first_channels_mode(harness: Harness, fakes: FakeTools) -> None:
    """The earlier call went on in direct messages and was approved before the switch."""
    ben, ana = harness.person("ben"), harness.person("ana")
    ask(harness, ("note", {"text": "again in private"}), channel=PARTNERS)
    [card] = harness.slack.wait(lambda: cards_of(harness, "ana", "again in private"))
    ana.click(ana.dm_channel, card["ts"], "approve")

    def decided() -> Any:
        seen = ben.everything(ben.dm_channel)
        return [m for m in seen if "ask_again" in str(m) and "again in private" in words(m)]

    [copy] = harness.slack.wait(decided)
    mode(harness, "observe", "ben", "observe mode now", PARTNERS)
    menu(harness, "ben", copy, "ask_again:", ben.dm_channel)
    harness.slack.wait(ben.view)
    assert ben.submit(typed(text="once more in private"))["outcome"] == "closed"
    root(harness, "once more in private", ben.dm_channel)
    harness.settle()
    [*_, run] = harness.all(Run, Run.source == RunSource.FORM)
    assert run.asked_in == PARTNERS
    assert not cards_of(harness, "ana", "once more in private")
    assert not fakes.did("note", "once more in private")


def test_strict_mode_ignores_remembered_approvals(harness: Harness, fakes: FakeTools) -> None:
    """The call ran once on a remembered approval, before the channel turned strict."""
    call = ("async_note", {"text": "asked once"})
    thread = ask(harness, call)
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "That is all.")
    thread = ask(harness, call)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("async_note", "asked once") == 2
    mode(harness, "strict", "ben", "strict mode now")
    thread = ask(harness, call)
    harness.card(SUPPORT, thread)
    assert statuses(harness, thread) == [C.PENDING]
    assert fakes.did("async_note", "asked once") == 2


def test_a_mode_set_everywhere_holds_in_direct_messages(harness: Harness, fakes: FakeTools) -> None:
    """Only people who may loosen a mode can set it everywhere; a stricter channel stays strict."""
    mode(harness, "everywhere", "ben", "All conversations are in ask mode")
    mode(harness, "observe everywhere", "ben", "You cannot switch all conversations")
    mode(harness, "strict everywhere", "cleo", "All conversations are in strict mode now")
    mode(harness, "strict everywhere", "cleo", "in strict mode already")
    mode(harness, "everywhere", "dan", "All conversations are in strict mode, since")
    ben = harness.person("ben")
    thread = ask(harness, ("put", {"text": "around it"}), channel=ben.dm_channel)
    [card] = harness.slack.wait(lambda: cards_of(harness, "ana", "around it"))
    assert "strict mode" in words(card)
    assert not fakes.did("put", "around it")
    vote(harness, "ana", card, harness.person("ana").dm_channel, seen=card)
    harness.said(ben.dm_channel, thread, "That is all.")
    mode(harness, "observe", "ben", "observe mode now")
    mode(harness, "", "ben", "All conversations are in strict mode")
    thread = ask(harness, ("put", {"text": "stricter here"}))
    harness.said(SUPPORT, thread, "observe mode")
    mode(harness, "ask everywhere", "dan", "You cannot switch all conversations")
    assert fakes.did("put", "around it") == 1


def test_explain_says_what_the_mode_changes(harness: Harness) -> None:
    """In strict mode it names who is asked; in observe mode it says that the call is refused."""
    explain = "/approvals explain put text=hedge"
    assert "Yet" not in asked(harness, explain, "ben")
    mode(harness, "strict", "ben", "strict mode now")
    told = asked(harness, explain, "ben")
    assert "It runs without asking, by the rule put is free." in told
    assert "But strict mode applies here: people are asked all the same" in told
    assert '"usergroup_id": "S0LEADS"' in told
    assert "nothing is remembered" in asked(harness, "/approvals explain note text=hedge", "ben")
    mode(harness, "observe", "ben", "observe mode now")
    told = asked(harness, explain, "ben")
    assert "But observe mode applies here, and it is refused" in told
    assert "Who decides" not in told


def test_the_first_message_of_a_forms_request_names_the_mode(harness: Harness) -> None:
    """The card in its thread names it too."""
    mode(harness, "strict", "ben", "strict mode now")
    thread = request(harness, "by a form", "put")
    assert "strict mode" in words(now_at(harness, SUPPORT, thread, "ben"))
    assert "strict mode" in words(harness.card(SUPPORT, thread))
