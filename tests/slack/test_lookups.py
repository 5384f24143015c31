"""The directory over Slack: what it asks for, how often, and what it does when Slack is slow."""

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
    """A local Slack with more channels than one page holds."""
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
    """The directory over it."""
    directory = SlackDirectory(client, slack.clock)
    yield directory
    directory.close()


def calls(slack: Sandbox, method: str) -> int:
    """How often the method was called."""
    return sum(each.method == method for each in slack.requests)


def test_names_of_channels_come_from_one_list(slack: Sandbox, directory: SlackDirectory) -> None:
    """However many names are asked for, all channels are listed once; the id is asked for its name.

    A renamed channel and a new one are found at once, with an event or without.
    """
    assert directory.find_channel_id("#many-7") == "C0MANY0007"
    assert directory.find_channel_id("#many-1199") == "C0MANY1199"
    assert directory.find_channel_id("C0MANY0009") == "C0MANY0009"
    assert directory.find_channel_id("C0NOTHERE") is None
    assert calls(slack, "conversations.list") == 2  # pages
    slack.clock.advance(61)
    with slack.world.lock:
        slack.world.channels["C0MANY0007"].name = "elsewhere"
        slack.world.channels["C0MANY0008"].name = "many-7"
    assert directory.find_channel_id("#many-7") == "C0MANY0008"
    assert directory.find_channel_id("#elsewhere") == "C0MANY0007"
    assert calls(slack, "conversations.list") == 4
    with slack.world.lock:
        slack.world.channels["C0MANY0009"].name = "just-renamed"
    assert directory.find_channel_id("#just-renamed") is None  # the list is seconds old
    assert directory.update_cache_from_event(
        {"type": "channel_rename", "channel": {"id": "C0MANY0009"}}
    )
    assert directory.find_channel_id("#just-renamed") == "C0MANY0009"


def test_all_groups_come_with_one_call(slack: Sandbox, directory: SlackDirectory) -> None:
    """Groups and their members are one call, until an event says that they have changed."""
    leads = directory.find_group("shop-leads")
    assert leads is not None
    assert leads.members == {"UANA00001", "UCLEO0001"}
    assert directory.find_group("nothing") is None
    assert calls(slack, "usergroups.list") == 1
    slack.set_group("shop-leads", ["dan"])
    assert directory.update_cache_from_event({"type": "subteam_members_changed"})
    leads = directory.find_group("shop-leads")
    assert leads is not None
    assert leads.members == {"UDAN00001"}
    assert not directory.update_cache_from_event({"type": "reaction_added"})


def test_many_people_come_from_the_list(slack: Sandbox, directory: SlackDirectory) -> None:
    """A few are looked up one by one, a crowd by the list of everybody, which is then remembered.

    An event about somebody in it changes the list.
    """
    crowd = [Person(f"m{n}", f"UM{n:07}", f"Member {n}") for n in range(MAX_SINGLE_LOOKUPS + 1)]
    with slack.world.lock:
        slack.world.people |= {each.name: each for each in crowd}
        slack.world.by_id |= {each.id: each for each in crowd}
    assert set(directory.find_people(["UANA00001", "UNOBODY01"])) == {"UANA00001"}
    assert calls(slack, "users.info") == 2
    assert len(directory.find_people([each.id for each in crowd])) == MAX_SINGLE_LOOKUPS + 1
    assert len(directory.find_people([each.id for each in crowd])) == MAX_SINGLE_LOOKUPS + 1
    assert (calls(slack, "users.info"), calls(slack, "users.list")) == (2, 1)
    changed = {"id": crowd[0].id, "name": "m0", "deleted": True}
    assert directory.update_cache_from_event({"type": "user_change", "user": changed})
    assert directory.find_people([crowd[0].id])[crowd[0].id].deleted


def test_a_crowd_of_strangers_is_one_question(slack: Sandbox, client: SlackClient) -> None:
    """Where many people are looked up at once the list is read, once, and who decides about them
    does not wait behind them; who is not in the list is asked for.
    """
    crowd = [Person(f"s{n}", f"US{n:07}", f"Stranger {n}") for n in range(100)]
    with slack.world.lock:
        slack.world.people |= {each.name: each for each in crowd}
        slack.world.by_id |= {each.id: each for each in crowd}
    directory = SlackDirectory(client, slack.clock)
    held = [slack.faults.hold("users.info", "before") for _ in range(8)]
    directory.start_lookups((LookupKind.PERSON, each.id) for each in crowd)
    directory.start_lookups([(LookupKind.PERSON, "UELSEWHERE")])
    # the first of them may have been asked for before it was a crowd
    assert set(directory.find_people(["UANA00001"])) == {"UANA00001"}
    for each in held:
        each.release()
    found = {each.id: directory.find_person(each.id) for each in crowd}
    assert all(person and person.name.startswith("Stranger") for person in found.values())
    assert directory.find_person("UELSEWHERE") is None
    assert calls(slack, "users.list") == 1
    assert calls(slack, "users.info") <= 8 + 1
    directory.close()


def test_a_crowd_whose_list_cannot_be_read(slack: Sandbox, directory: SlackDirectory) -> None:
    """Each is asked for, and the list is not asked for again and again."""
    crowd = [Person(f"r{n}", f"UR{n:07}", f"Reader {n}") for n in range(40)]
    with slack.world.lock:
        slack.world.people |= {each.name: each for each in crowd}
        slack.world.by_id |= {each.id: each for each in crowd}
    slack.faults.fail("users.list", "missing_scope", times=100)
    directory.start_lookups((LookupKind.PERSON, each.id) for each in crowd)
    assert all(directory.find_person(each.id) for each in crowd)
    assert calls(slack, "users.list") <= 1


def test_many_who_ask_at_once_are_one_question(slack: Sandbox) -> None:
    """Who looks right before an answer lands and asks right after gets it: none asks twice."""
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


def test_who_may_not_wait_comes_again(slack: Sandbox, directory: SlackDirectory) -> None:
    """Without patience what is not known is asked for and said to be; a failure is said once."""
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


def test_nobody_waits_longer_than_they_can(slack: Sandbox, directory: SlackDirectory) -> None:
    """A look-up that takes too long refuses whoever asked for it, and goes on for the next."""
    hold = slack.faults.hold("users.info")
    with pytest.raises(LookupFailedError, match="in time"):
        directory.with_timeout(0.05).find_person("UANA00001")
    assert hold.arrived.wait(30)
    hold.release()
    assert directory.find_person("UANA00001") is not None
    assert calls(slack, "users.info") == 1


def test_an_answer_from_before_an_event_is_not_remembered(
    slack: Sandbox, directory: SlackDirectory
) -> None:
    """Who is asked about while Slack says that they change is asked about again."""
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


def test_a_limited_call_waits_and_stops_waiting(slack: Sandbox, client: SlackClient) -> None:
    """The reading client waits as long as Slack says, unless it is closed meanwhile."""
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
    slack.wait(lambda: calls(slack, "users.info") == 3)
    client.close()
    assert ended.wait(30)
    asking.join()


def test_a_name_does_not_pass_for_somebody_else(slack: Sandbox, directory: SlackDirectory) -> None:
    """Nothing in the name that people give themselves looks like the id that stands behind it."""
    names = SlackIdResolver(directory, None)
    new = Person("fay", "UFAY00001", "Ana Ruiz (UANA00001)\n" + "x" * 200)
    with slack.world.lock:
        slack.world.people["fay"] = slack.world.by_id[new.id] = new
    assert names.resolve_id(PERSON, "UFAY00001") == "UFAY00001"
    shown = names.names_by_id["UFAY00001"]
    assert shown.startswith("Ana Ruiz [UANA00001] xxx")
    assert len(shown) == 80


def test_a_name_that_is_missing_is_looked_for_in_a_new_list(
    slack: Sandbox, directory: SlackDirectory
) -> None:
    """Somebody who came after everybody was listed is found by name; who is nowhere is not."""
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
    assert calls(slack, "users.list") == 2


def test_pauses_are_looked_up_with_the_scope_alone(
    slack: Sandbox, client: SlackClient, directory: SlackDirectory
) -> None:
    """One call tells them for some people, none is made for a crowd or without the scope."""
    slack.person("ana").set_do_not_disturb(hours="00:00-23:59")
    some = ["UANA00001", "UBEN00001"]
    assert directory.find_quiet_hours(some) == {}
    granted = SlackDirectory(client, slack.clock, scopes=["dnd:read"])
    assert granted.find_quiet_hours([f"U{n}" for n in range(51)]) == {}
    assert calls(slack, "dnd.teamInfo") == 0
    for _ in range(3):
        assert [*granted.find_quiet_hours(some)] == ["UANA00001"]
    assert granted.find_quiet_hours(["UNOBODY01"]) == {}
    assert calls(slack, "dnd.teamInfo") == 2
    granted.close()


def test_the_oldest_answers_are_forgotten(
    slack: Sandbox, directory: SlackDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that what is remembered does not grow with what was ever asked."""
    monkeypatch.setattr(lookups, "MAX_REMEMBERED_ANSWERS", 2)
    for user in ("UANA00001", "UBEN00001", "UCLEO0001"):
        directory.find_person(user)
    before = calls(slack, "users.info")
    directory.find_person("UCLEO0001")
    assert calls(slack, "users.info") == before
    directory.find_person("UANA00001")
    assert calls(slack, "users.info") == before + 1
