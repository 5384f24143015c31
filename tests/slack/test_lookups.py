"""The directory over Slack: what it asks, how often, and what happens when Slack is slow."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from slack_sdk.errors import SlackApiError

from bot.policy.authority import LookupFailedError, LookupPendingError
from bot.signals import Signals
from bot.slack import lookups
from bot.slack.client import SlackClient
from bot.slack.directory import MAX_SINGLE_LOOKUPS, SlackDirectory
from bot.slack.lookups import LookupCache, LookupKind, build_read_only_slack_client
from bot.tools.names import SlackIdKind, SlackIdResolver
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.people import Channel, Person
from tests.local_slack import build_local_slack

PERSON = SlackIdKind.PERSON


@pytest.fixture
def slack() -> Iterator[Sandbox]:
    """A local Slack with more channels than fit on one page."""
    with build_local_slack() as sandbox:
        with sandbox.world.lock:
            for n in range(1200):
                sandbox.world.channels[f"C0MANY{n:04}"] = Channel(f"C0MANY{n:04}", f"many-{n}")
        yield sandbox


@pytest.fixture
def client(slack: Sandbox) -> Iterator[SlackClient]:
    """The client that only reads."""
    client = build_read_only_slack_client(slack.bot_token, slack.api_url)
    yield client
    client.close()


@pytest.fixture
def directory(slack: Sandbox, client: SlackClient) -> Iterator[SlackDirectory]:
    """The directory that reads through the client."""
    directory = SlackDirectory(client, slack.clock)
    yield directory
    directory.close()


def count_calls(slack: Sandbox, method: str) -> int:
    """How often the method was called."""
    return sum(each.method == method for each in slack.requests)


def test_channel_names_are_looked_up_in_one_list(slack: Sandbox, directory: SlackDirectory) -> None:
    """It is read once. A renamed or new channel is found at once, even without an event."""
    assert directory.find_channel_id("#many-7") == "C0MANY0007"
    assert directory.find_channel_id("#many-1199") == "C0MANY1199"
    assert directory.find_channel_id("C0MANY0009") == "C0MANY0009"
    assert directory.find_channel_id("C0NOTHERE") is None
    assert count_calls(slack, "conversations.list") == 2  # pages
    slack.clock.advance(61)
    with slack.world.lock:
        slack.world.channels["C0MANY0007"].name = "elsewhere"
        slack.world.channels["C0MANY0008"].name = "many-7"
    assert directory.find_channel_id("#many-7") == "C0MANY0008"
    assert directory.find_channel_id("#elsewhere") == "C0MANY0007"
    assert count_calls(slack, "conversations.list") == 4
    with slack.world.lock:
        slack.world.channels["C0MANY0009"].name = "just-renamed"
    assert directory.find_channel_id("#just-renamed") is None  # the list is seconds old
    assert directory.update_cache_from_event(
        {"type": "channel_rename", "channel": {"id": "C0MANY0009"}}
    )
    assert directory.find_channel_id("#just-renamed") == "C0MANY0009"


def test_all_groups_are_fetched_in_one_call(slack: Sandbox, directory: SlackDirectory) -> None:
    """They are asked for again after an event says that they have changed."""
    leads = directory.find_group("shop-leads")
    assert leads is not None
    assert leads.members == {"UANA00001", "UCLEO0001"}
    assert directory.find_group("nothing") is None
    assert count_calls(slack, "usergroups.list") == 1
    slack.set_group("shop-leads", ["dan"])
    assert directory.update_cache_from_event({"type": "subteam_members_changed"})
    leads = directory.find_group("shop-leads")
    assert leads is not None
    assert leads.members == {"UDAN00001"}
    assert not directory.update_cache_from_event({"type": "reaction_added"})


def test_many_people_are_looked_up_in_the_list_of_everybody(
    slack: Sandbox, directory: SlackDirectory
) -> None:
    """Few are looked up one by one. An event about somebody changes the remembered list."""
    crowd = [Person(f"m{n}", f"UM{n:07}", f"Member {n}") for n in range(MAX_SINGLE_LOOKUPS + 1)]
    with slack.world.lock:
        slack.world.people |= {each.name: each for each in crowd}
        slack.world.by_id |= {each.id: each for each in crowd}
    assert set(directory.find_people(["UANA00001", "UNOBODY01"])) == {"UANA00001"}
    assert count_calls(slack, "users.info") == 2
    assert len(directory.find_people([each.id for each in crowd])) == MAX_SINGLE_LOOKUPS + 1
    assert len(directory.find_people([each.id for each in crowd])) == MAX_SINGLE_LOOKUPS + 1
    assert (count_calls(slack, "users.info"), count_calls(slack, "users.list")) == (2, 1)
    changed = {"id": crowd[0].id, "name": "m0", "deleted": True}
    assert directory.update_cache_from_event({"type": "user_change", "user": changed})
    assert directory.find_people([crowd[0].id])[crowd[0].id].deleted


def test_a_crowd_of_unknown_people_is_looked_up_in_one_call(
    slack: Sandbox, client: SlackClient
) -> None:
    """The list is read once, and a decision about others does not wait behind it. Who is not in the
    list is asked for."""
    crowd = [Person(f"s{n}", f"US{n:07}", f"Stranger {n}") for n in range(100)]
    with slack.world.lock:
        slack.world.people |= {each.name: each for each in crowd}
        slack.world.by_id |= {each.id: each for each in crowd}
    directory = SlackDirectory(client, slack.clock)
    held = [slack.faults.hold("users.info", "before") for _ in range(8)]
    directory.start_lookups((LookupKind.PERSON, each.id) for each in crowd)
    directory.start_lookups([(LookupKind.PERSON, "UELSEWHERE")])
    # the first look-ups may come before there was a crowd
    assert set(directory.find_people(["UANA00001"])) == {"UANA00001"}
    for each in held:
        each.release()
    found = {each.id: directory.find_person(each.id) for each in crowd}
    assert all(person and person.name.startswith("Stranger") for person in found.values())
    assert directory.find_person("UELSEWHERE") is None
    assert count_calls(slack, "users.list") == 1
    assert count_calls(slack, "users.info") <= 8 + 1
    directory.close()


def test_people_are_looked_up_singly_if_the_list_fails(
    slack: Sandbox, directory: SlackDirectory
) -> None:
    """Each person is asked for, and the list is tried at most once."""
    crowd = [Person(f"r{n}", f"UR{n:07}", f"Reader {n}") for n in range(40)]
    with slack.world.lock:
        slack.world.people |= {each.name: each for each in crowd}
        slack.world.by_id |= {each.id: each for each in crowd}
    slack.faults.fail("users.list", "missing_scope", times=100)
    directory.start_lookups((LookupKind.PERSON, each.id) for each in crowd)
    assert all(directory.find_person(each.id) for each in crowd)
    assert count_calls(slack, "users.list") <= 1


def test_threads_that_ask_at_once_share_one_look_up(slack: Sandbox) -> None:
    """Even one who asks right after the answer came gets that answer."""
    answers, asked = LookupCache(slack.clock, Signals()), []
    at_once, rounds = threading.Barrier(6), 60

    def ask(name: str) -> str:
        asked.append(name)
        return name

    def want() -> None:
        for number in range(rounds):
            at_once.wait(30)
            assert (
                answers.get_or_look_up_answer((LookupKind.PERSON, f"U{number}"), ask, 30)
                == f"U{number}"
            )

    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(at_once.parties) as pool:
            for each in [pool.submit(want) for _ in range(at_once.parties)]:
                each.result(60)
    finally:
        sys.setswitchinterval(often)
        answers.close()
    assert len(asked) == rounds


def test_a_look_up_without_patience_is_pending_until_answered(
    slack: Sandbox, directory: SlackDirectory
) -> None:
    """A failure is reported once, then asked again."""
    at_once = directory.with_timeout(0)
    with pytest.raises(LookupPendingError) as awaited:
        at_once.find_person("UANA00001")
    assert [each.result(30).name for each in awaited.value.answers] == ["Ana Ruiz"]
    person = at_once.find_person("UANA00001")
    assert person is not None
    slack.faults.fail("users.info", "internal_error")
    with pytest.raises(LookupPendingError) as awaited:
        at_once.find_people(["UBEN00001", "UANA00001"])
    assert awaited.value.answers[0].exception(10) is not None
    with pytest.raises(LookupFailedError, match="internal_error"):
        at_once.find_person("UBEN00001")
    with pytest.raises(LookupPendingError):
        at_once.find_person("UBEN00001")


def test_a_slow_look_up_fails_in_time_and_goes_on(
    slack: Sandbox, directory: SlackDirectory
) -> None:
    """It fails for the one who asked, and goes on for the next."""
    hold = slack.faults.hold("users.info")
    with pytest.raises(LookupFailedError, match="in time"):
        directory.with_timeout(0.05).find_person("UANA00001")
    assert hold.arrived.wait(30)
    hold.release()
    assert directory.find_person("UANA00001") is not None
    assert count_calls(slack, "users.info") == 1


def test_an_answer_from_before_an_event_is_not_remembered(
    slack: Sandbox, directory: SlackDirectory
) -> None:
    """An event during a look-up makes the next caller ask again."""
    hold = slack.faults.hold("users.info", when="after")
    with pytest.raises(LookupPendingError) as awaited:
        directory.with_timeout(0).find_person("UDAN00001")
    assert hold.arrived.wait(30)
    slack.deactivate("dan")
    directory.update_cache_from_event({"type": "user_change", "user": {"id": "UDAN00001"}})
    hold.release()
    assert not awaited.value.answers[0].result(30).deleted
    person = directory.find_person("UDAN00001")
    assert person is not None
    assert person.deleted


def test_a_rate_limited_read_waits_until_the_client_is_closed(
    slack: Sandbox, client: SlackClient
) -> None:
    """Closing the client ends the wait."""
    slack.faults.rate_limit("users.info", retry_after=1)
    assert client.users_info(user="UANA00001")["ok"]
    slack.faults.rate_limit("users.info", retry_after=60, times=9)
    ended = threading.Event()

    def ask() -> None:
        with pytest.raises(SlackApiError, match="ratelimited"):
            client.users_info(user="UANA00001")
        ended.set()

    asking = threading.Thread(target=ask)
    asking.start()
    slack.wait(lambda: count_calls(slack, "users.info") == 3)
    client.close()
    assert ended.wait(30)
    asking.join()


def test_a_name_cannot_imitate_somebody_elses_id(slack: Sandbox, directory: SlackDirectory) -> None:
    """Names that people choose cannot look like the id shown behind a name."""
    names = SlackIdResolver(directory, None)
    new = Person("fay", "UFAY00001", "Ana Ruiz (UANA00001)\n" + "x" * 200)
    with slack.world.lock:
        slack.world.people["fay"] = slack.world.by_id[new.id] = new
    assert names.resolve_id(PERSON, "UFAY00001") == "UFAY00001"
    shown = names.names_by_id["UFAY00001"]
    assert shown.startswith("Ana Ruiz [UANA00001] xxx")
    assert len(shown) == 80


def test_a_missing_name_is_looked_up_in_a_new_list(
    slack: Sandbox, directory: SlackDirectory
) -> None:
    """So somebody who joined after the list was read is found."""
    names = SlackIdResolver(directory, None)
    assert [names.resolve_id(PERSON, each) for each in ("@dan", "Ana Ruiz")] == [
        "UDAN00001",
        "UANA00001",
    ]
    slack.clock.advance(30)
    new = Person("fay", "UFAY00001", "Fay Moss")
    with slack.world.lock:
        slack.world.people["fay"] = slack.world.by_id[new.id] = new
    assert names.resolve_id(PERSON, "Fay Moss") == "UFAY00001"
    with pytest.raises(ValueError, match="nobody called @zed"):
        names.resolve_id(PERSON, "@zed")
    assert count_calls(slack, "users.list") == 2


def test_quiet_hours_are_looked_up_only_with_the_scope(
    slack: Sandbox, client: SlackClient, directory: SlackDirectory
) -> None:
    """One call serves some people; none is made for a crowd."""
    slack.person("ana").set_do_not_disturb(hours="00:00-23:59")
    some = ["UANA00001", "UBEN00001"]
    assert directory.find_quiet_hours(some) == {}
    granted = SlackDirectory(client, slack.clock, scopes=["dnd:read"])
    assert granted.find_quiet_hours([f"U{n}" for n in range(51)]) == {}
    assert count_calls(slack, "dnd.teamInfo") == 0
    for _ in range(3):
        assert [*granted.find_quiet_hours(some)] == ["UANA00001"]
    assert granted.find_quiet_hours(["UNOBODY01"]) == {}
    assert count_calls(slack, "dnd.teamInfo") == 2
    granted.close()


def test_the_oldest_look_ups_are_forgotten(
    slack: Sandbox, directory: SlackDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the memory stays limited."""
    monkeypatch.setattr(lookups, "MAX_REMEMBERED_ANSWERS", 2)
    for user in ("UANA00001", "UBEN00001", "UCLEO0001"):
        directory.find_person(user)
    before = count_calls(slack, "users.info")
    directory.find_person("UCLEO0001")
    assert count_calls(slack, "users.info") == before
    directory.find_person("UANA00001")
    assert count_calls(slack, "users.info") == before + 1
