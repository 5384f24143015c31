"""The owner of what a call is about decides: known by a table, and nobody where it has none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.owner_functions import released
from tests.stories.steps import ask, statuses, told, vote
from tests.stories.test_reload import change, reloaded

C = CallStatus
POLICY = """
[defaults]
approvers = ["UDAN00001"]

[owners.text]
payments = ["UANA00001"]
search = ["UCLEO0001"]

[[rule]]
name = "owners"
tool = "note"
verdict = "ask"
approvers = ["owner of args.text"]
"""


def test_the_owner_decides_and_nobody_else(harness: Harness, fakes: FakeTools) -> None:
    """Not who owns something else, and not whom the defaults name."""
    thread = ask(harness, ("note", {"text": "payments"}))
    card = harness.card(SUPPORT, thread)
    for who in ("cleo", "dan"):
        vote(harness, who, card)
        told(harness, who, SUPPORT, thread, "You cannot decide this one")
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "payments")) == ([C.SUCCEEDED], 1)


def test_what_nobody_owns_is_refused(harness: Harness, fakes: FakeTools) -> None:
    """Nobody is asked, and it does not run."""
    thread = ask(harness, ("note", {"text": "billing"}))
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "billing")) == ([C.REFUSED], 0)


FUNCTION = POLICY.replace("[owners.text]", '[owners.text]\nfunction = "%s"')


@pytest.fixture
def with_function(own_harness: Callable[..., Harness], fakes: FakeTools) -> Harness:
    """A bot whose policy asks a function about what the table does not name."""
    return own_harness(fakes.tools, FUNCTION % "tests.stories.owner_functions:find_owner")


def test_a_function_finds_the_owner(with_function: Harness, fakes: FakeTools) -> None:
    """Of what the table does not name: the table says Cleo owns search, and Ana payments."""
    harness = with_function
    thread = ask(harness, ("note", {"text": "search"}))
    vote(harness, "cleo", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "That is all.")
    text = FUNCTION.replace('payments = ["UANA00001"]\n', "")
    change(harness, text % "tests.stories.owner_functions:find_owner")
    thread = ask(harness, ("note", {"text": "payments"}))
    card = harness.card(SUPPORT, thread)
    vote(harness, "cleo", card)
    told(harness, "cleo", SUPPORT, thread, "You cannot decide this one")
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (fakes.did("note", "search"), fakes.did("note", "payments")) == (1, 1)


@pytest.mark.parametrize(
    "value", ["unowned", "broken", "odd", pytest.param("slow", marks=pytest.mark.long)]
)
def test_a_function_that_fails_names_nobody(
    with_function: Harness, fakes: FakeTools, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It returns nobody, raises, returns what is no list, or takes too long: nobody is asked.

    The log names the function, and never the value.
    """
    released.clear()
    thread = ask(with_function, ("note", {"text": value}))
    with_function.said(SUPPORT, thread, "That is all.")
    released.set()
    assert (statuses(with_function, thread), fakes.did("note", value)) == ([C.REFUSED], 0)
    failed = [each.getMessage() for each in caplog.records if "look-up of" in each.getMessage()]
    assert bool(failed) is (value != "unowned")
    assert all("find_owner" in each and value not in each for each in failed)


def test_a_function_that_is_not_there_names_nobody(
    own_harness: Callable[..., Harness], fakes: FakeTools
) -> None:
    """Whoever else owns something."""
    harness = own_harness(fakes.tools, FUNCTION % "tests.stories.owner_functions:find_ownr")
    thread = ask(harness, ("note", {"text": "other"}))
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [C.REFUSED]


def test_a_file_of_owners_counts_without_a_restart(
    own_harness: Callable[..., Harness], fakes: FakeTools
) -> None:
    """So does a change in it alone; a mistake in it keeps the policy as it was."""
    harness = own_harness(fakes.tools, POLICY)
    file = harness.folder / "owners.csv"
    file.write_text("key,owners\nbilling,UANA00001\n")
    change(harness, POLICY.replace("[owners.text]", '[owners.text]\nfile = "owners.csv"'))
    thread = ask(harness, ("note", {"text": "billing"}))
    card = harness.card(SUPPORT, thread)
    file.write_text("key,owners\nbilling,UDAN00001\n")
    change(harness, (harness.folder / "policy.toml").read_text())
    assert len(reloaded(harness)) == 2
    vote(harness, "ana", card)  # who owned it when it was asked, and no longer does
    harness.said(SUPPORT, thread, "has changed since it was asked")
    assert fakes.did("note", "billing") == 0
    file.write_text("key,owners\nbilling,nobody\n")
    change(harness, (harness.folder / "policy.toml").read_text())
    assert len(reloaded(harness)) == 2
