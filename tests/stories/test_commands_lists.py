"""`/approvals` for looking things up: the menu, lists, one request, and the report."""

from __future__ import annotations

from typing import Any

import pytest

from storage.models import Audit, Delivery
from tests.missing import missing
from tests.stories.asked_people import question
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import arrived, ask, cards_of, open_modal, press, statuses, typed, vote
from tests.stories.test_commands import asked

POLICY = """
readers = ["UDAN00001"]

[defaults]
approvers = ["@shop-leads"]

[[rule]]
tool = "put"
verdict = "ask"
approvers = ["UCLEO0001"]
"""


def find_newest_answer(harness: Harness, who: str, channel: str = SUPPORT) -> dict[str, Any]:
    """The newest message that only this person sees."""
    mine = [m for m in harness.person(who).everything(channel) if m.get("is_ephemeral")]
    return max(mine, key=lambda each: float(each["ts"]), default={})


def press_and_wait(
    harness: Harness, who: str, action: str, part: str, channel: str = SUPPORT
) -> dict[str, Any]:
    """Press the first such button of the answer; returns the answer once it shows that text."""
    answer = find_newest_answer(harness, who, channel)
    harness.person(who).click(channel, answer["ts"], action, seen=answer)

    def look() -> dict[str, Any] | None:
        now = find_newest_answer(harness, who, channel)
        return now if now["ts"] == answer["ts"] and part in words(now) else None

    found: dict[str, Any] = harness.slack.wait(look)
    return found


def test_the_menu_answers_in_place(harness: Harness) -> None:
    """Each button replaces the menu's text by its answer and stays. Nothing of it is kept in the
    inbox.
    """
    ask(harness, ("note", {"text": "pond pump"}))
    arrived(harness)
    before = len(harness.all(Delivery))
    assert "What would you like to see?" in asked(harness, "/approvals", "ana")
    waiting = press_and_wait(harness, "ana", "look_waiting", "pond pump")
    assert "Asked by <@UBEN00001> in <#C0SUPPORT>" in words(waiting)
    assert "/archives/C0SUPPORT/p" in words(waiting)
    life = press_and_wait(harness, "ana", "look_show", "proposed by ")
    assert "Text: pond pump" in words(life)
    for action, part in [
        ("look_requests", "You have not asked for anything yet."),
        ("look_history", "last 7 days"),
        ("look_grants", "You have no saved approvals"),
        ("look_help", "/approvals show <link or id>"),
        ("look_waiting", "pond pump"),
    ]:
        answer = press_and_wait(harness, "ana", action, part)
        assert "look_waiting" in action_ids(answer)
    assert len(harness.all(Delivery)) == before


def test_people_are_named_where_slack_draws_no_mention(harness: Harness) -> None:
    """A list shows arguments literally, so ids of people become their names."""
    thread = ask(harness, ("note", {"text": "a gift for <@UDAN00001>, <@UXX99999> and <@Ux|you>"}))
    arrived(harness)
    for text in (
        asked(harness, "/approvals list", "ana"),
        asked(harness, "/approvals requests"),
        asked(harness, f"/approvals show {harness.calls_in(thread)[0].id}"),
    ):
        assert "a gift for @Dan Weber, <@UXX99999> and <@Ux|you>" in text


def test_requests_and_history_list_only_your_own(harness: Harness) -> None:
    """Only the requester and the people who decided see a request in them."""
    thread = ask(harness, ("note", {"text": "oak bench"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    arrived(harness)
    assert statuses(harness, thread) == ["succeeded"]
    mine = asked(harness, "/approvals requests")
    assert "oak bench" in mine
    assert "✅ Done" in mine
    for who in ("ben", "ana"):
        text = asked(harness, "/approvals history 1 day", who)
        assert "Done, approved by <@UANA00001>" in text
        assert "oak bench" in text
    assert "oak bench" not in asked(harness, "/approvals history", "dan")
    assert "oak bench" not in asked(harness, "/approvals requests", "ana")
    harness.clock.advance(3 * 86_400)
    assert "oak bench" not in asked(harness, "/approvals history 2")
    assert "oak bench" in asked(harness, "/approvals history 4")


def test_show_tells_the_whole_history_of_a_request(harness: Harness) -> None:
    """It takes a link, an id or a fingerprint, and each reading is in the audit."""
    thread = ask(harness, ("note", {"text": "red paint"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ben", SUPPORT, card, "edit")
    harness.person("ben").submit(typed(text="green paint"))
    arrived(harness)
    card = harness.card(SUPPORT, thread)
    vote(harness, "ana", card)
    arrived(harness)
    [call] = harness.calls_in(thread)
    link = f"{harness.slack.world.url}/archives/{SUPPORT}/p{card['ts'].replace('.', '')}"
    for reference in (link, call.id, call.run_id, f"#{call.digest[:8]}"):
        text = asked(harness, f"/approvals show {reference}")
        assert "red paint → green paint" in text
        assert "approved by" in text
        assert f"#{call.digest[:8]}" in text
    events = harness.all(Audit, Audit.run_id == call.run_id, Audit.event == "request.read")
    assert [row.actor for row in events] == ["UBEN00001"] * 4


def test_show_tells_a_change_far_inside_a_long_text(harness: Harness) -> None:
    """One of the changes is a single space."""
    start = "The order goes out as it was agreed. " * 12
    thread = ask(harness, ("note", {"text": f"{start}Pay 40 EUR."}))
    arrived(harness)
    for end in ("Pay 4000 EUR.", "Pay 4000  EUR."):
        card = harness.card(SUPPORT, thread)
        open_modal(harness, "ben", SUPPORT, card, "edit")
        harness.person("ben").submit(typed(text=f"{start}{end}"))
        arrived(harness)
    [call] = harness.calls_in(thread)
    text = asked(harness, f"/approvals show {call.id}")
    assert "asked again by" not in text
    assert "agreed. Pay 40 EUR. → …" in text
    assert "agreed. Pay 4000 EUR." in text
    assert r"Pay 4000 \u0020EUR." in text.replace(r"\\", "\\")
    harness.said(SUPPORT, thread, "Pay 40 EUR. → …")


def test_show_is_only_for_approvers_and_readers(harness: Harness) -> None:
    """To others it answers as if the request did not exist, and nothing is recorded."""
    thread = ask(harness, ("put", {"text": "hive key"}))
    harness.card(SUPPORT, thread)
    [call] = harness.calls_in(thread)
    for who in ("cleo", "dan"):
        assert "hive key" in asked(harness, f"/approvals show {call.id}", who)
    text = asked(harness, f"/approvals show {call.id}", "ana")
    assert "There is no request with that id that you may read." in text
    events = harness.all(Audit, Audit.event == "request.read", Audit.run_id == call.run_id)
    assert sorted(row.actor for row in events) == ["UCLEO0001", "UDAN00001"]


def test_a_link_leads_where_its_reader_has_access(harness: Harness) -> None:
    """The request is in a direct message: its requester is led there, an approver to their own
    card, and a mere reader gets no link.
    """
    ben, ana = harness.person("ben"), harness.person("ana")
    root = ask(harness, ("note", {"text": "larch poles"}), channel=ben.dm_channel)
    [card] = harness.slack.wait(lambda: cards_of(harness, "ana", "larch poles"))
    arrived(harness)
    [call] = harness.calls_in(root)
    theirs = f"/archives/{ben.dm_channel}/"
    assert theirs in asked(harness, f"/approvals show {call.id}", "ben")
    for line in ("list", f"show {call.id}"):
        told_ana = asked(harness, f"/approvals {line}", "ana")
        assert f"/archives/{ana.dm_channel}/p{card['ts'].replace('.', '')}" in told_ana
        assert theirs not in told_ana
    assert "/archives/" not in asked(harness, f"/approvals show {call.id}", "dan")


def test_list_leaves_out_what_has_been_decided(harness: Harness) -> None:
    """A call is approved on its card, and the list is asked for again."""
    thread = ask(harness, ("note", {"text": "stone path"}))
    card = harness.card(SUPPORT, thread)
    asked(harness, "/approvals list", "ana")
    press(harness, "ana", SUPPORT, card, "approve")
    arrived(harness)
    assert "stone path" not in asked(harness, "/approvals list", "ana")


def test_the_report_is_only_for_readers(harness: Harness) -> None:
    """The policy's readers get the numbers, by tool and by person."""
    thread = ask(harness, ("note", {"text": "gravel"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    arrived(harness)
    pictures = len(list_pictures(harness, "dan"))
    text = asked(harness, "/approvals report 1 day", "dan")
    harness.slack.wait(lambda: len(list_pictures(harness, "dan")) > pictures)
    assert "Write a note" in text
    assert "approved" in text
    assert "UANA00001" in text
    assert "Approved with one click on the card, without Review or Edit: " in text
    told = asked(harness, "/approvals report", "ana")
    assert "the people whom the policy names" in told
    assert "Write a note" not in told


def test_home_shows_only_readers_how_people_decided(harness: Harness) -> None:
    """Dan is one of the policy's readers, Ana is not."""
    thread = ask(harness, ("note", {"text": "slate"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    arrived(harness)

    def home(who: str) -> str:
        harness.person(who).open_home()
        return str(harness.slack.wait(lambda: harness.person(who).home()))

    assert "How people decided in the last 30 days" in home("dan")
    assert "Approved with one click on the card" in home("dan")
    assert "How people decided" not in home("ana")


def test_list_counts_questions_that_wait_for_you(harness: Harness) -> None:
    """The agent has asked Ben a question; Ana's list has none."""
    thread = ask(harness, question(question="Which shed is it?", kind="text"))
    harness.card(SUPPORT, thread, "ben", "decline")
    assert "A question is waiting for your answer" in asked(harness, "/approvals list")
    assert "waiting for your answer" not in asked(harness, "/approvals list", "ana")


def list_pictures(harness: Harness, who: str) -> list[dict[str, Any]]:
    """List the files in this person's direct message with the bot."""
    person = harness.person(who)
    return [f for m in person.everything(person.dm_channel) for f in m.get("files", [])]


def get_note_approved(harness: Harness, text: str) -> None:
    """Ben asks for a note with that text, and Ana approves it."""
    thread = ask(harness, ("note", {"text": text}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    arrived(harness)


def test_the_picture_of_the_report_comes_in_a_direct_message(harness: Harness) -> None:
    """It has a text alternative, and the answer says where it is. People who may not read the
    report get neither.
    """
    get_note_approved(harness, "sand")
    before = len(list_pictures(harness, "dan"))
    assert "a picture of it in a direct message" in asked(harness, "/approvals report", "dan")
    [file] = harness.slack.wait(lambda: list_pictures(harness, "dan")[before:])
    assert file["name"].startswith("decisions-")
    assert (file["filetype"], file["is_public"]) == ("png", False)
    assert file["alt_txt"].startswith("Decisions from ")
    with harness.slack.world.lock:
        data = harness.slack.world.files[file["id"]].data
    assert data is not None
    assert data.startswith(b"\x89PNG")
    asked(harness, "/approvals report", "ana")
    assert list_pictures(harness, "ana") == []
    harness.person("dan").dm("report")  # as a message
    harness.slack.wait(lambda: len(list_pictures(harness, "dan")) == before + 2)


def test_the_report_is_shown_even_if_slack_refuses_its_picture(harness: Harness) -> None:
    """Its reader is told that the picture is missing."""
    get_note_approved(harness, "clay")
    before = len(list_pictures(harness, "dan"))
    harness.slack.faults.fail("files.getUploadURLExternal", "missing_scope")
    assert "Who decided" in asked(harness, "/approvals report", "dan")
    dan = harness.person("dan")
    harness.slack.wait(
        lambda: "could not send you the picture" in str(dan.everything(dan.dm_channel))
    )
    assert len(list_pictures(harness, "dan")) == before


def test_without_matplotlib_the_report_has_no_picture(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer does not promise one."""
    get_note_approved(harness, "marl")
    missing(monkeypatch, "matplotlib", "bot.explain.report_picture")
    text = asked(harness, "/approvals report", "dan")
    assert "Who decided" in text
    assert "picture" not in text
