"""Rules that ask the owner of an argument's value: from a table, a file or a function."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.owner_functions import released
from tests.stories.steps import ask, statuses, told, vote
from tests.stories.test_policy_reload import list_reloads, write_policy

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


def test_only_the_owner_of_the_value_can_decide(harness: Harness, fakes: FakeTools) -> None:
    """Neither the owner of something else nor the default approver can."""
    thread = ask(harness, ("note", {"text": "payments"}))
    card = harness.card(SUPPORT, thread)
    for who in ("cleo", "dan"):
        vote(harness, who, card)
        told(harness, who, SUPPORT, thread, "You cannot decide this one")
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "payments")) == ([C.SUCCEEDED], 1)


def test_a_call_about_something_nobody_owns_is_refused(harness: Harness, fakes: FakeTools) -> None:
    """No card is posted, and it does not run."""
    thread = ask(harness, ("note", {"text": "billing"}))
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "billing")) == ([C.REFUSED], 0)


FUNCTION = POLICY.replace("[owners.text]", '[owners.text]\nfunction = "%s"')


@pytest.fixture
def with_function(own_harness: Callable[..., Harness], fakes: FakeTools) -> Harness:
    """A bot whose policy asks a function for values that are not in the table."""
    return own_harness(fakes.tools, FUNCTION % "tests.stories.owner_functions:find_owner")


def test_a_function_finds_owners_that_the_table_does_not_name(
    with_function: Harness, fakes: FakeTools
) -> None:
    """The table names the owner of search; once payments is taken out, the function finds Ana."""
    harness = with_function
    thread = ask(harness, ("note", {"text": "search"}))
    vote(harness, "cleo", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "That is all.")
    text = FUNCTION.replace('payments = ["UANA00001"]\n', "")
    write_policy(harness, text % "tests.stories.owner_functions:find_owner")
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
def test_a_call_is_refused_if_the_owner_function_fails(
    with_function: Harness, fakes: FakeTools, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It returns nobody, raises, returns something other than a list, or takes too long.

    The log names the function, but not the value.
    """
    released.clear()
    thread = ask(with_function, ("note", {"text": value}))
    with_function.said(SUPPORT, thread, "That is all.")
    released.set()
    assert (statuses(with_function, thread), fakes.did("note", value)) == ([C.REFUSED], 0)
    failed = [each.getMessage() for each in caplog.records if "look-up of" in each.getMessage()]
    assert bool(failed) is (value != "unowned")
    assert all("find_owner" in each and value not in each for each in failed)


def test_a_call_is_refused_if_the_owner_function_is_missing(
    own_harness: Callable[..., Harness], fakes: FakeTools
) -> None:
    """The name of the function is misspelt in the policy."""
    harness = own_harness(fakes.tools, FUNCTION % "tests.stories.owner_functions:find_ownr")
    thread = ask(harness, ("note", {"text": "other"}))
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [C.REFUSED]


def test_a_changed_owners_file_counts_without_a_restart(
    own_harness: Callable[..., Harness], fakes: FakeTools
) -> None:
    """A mistake in the file keeps the policy as it was."""
    harness = own_harness(fakes.tools, POLICY)
    file = harness.folder / "owners.csv"
    file.write_text("key,owners\nbilling,UANA00001\n")
    write_policy(harness, POLICY.replace("[owners.text]", '[owners.text]\nfile = "owners.csv"'))
    thread = ask(harness, ("note", {"text": "billing"}))
    card = harness.card(SUPPORT, thread)
    file.write_text("key,owners\nbilling,UDAN00001\n")
    write_policy(harness, (harness.folder / "policy.toml").read_text())
    assert len(list_reloads(harness)) == 2
    vote(harness, "ana", card)  # the owner when it was asked, who no longer is
    harness.said(SUPPORT, thread, "has changed since it was asked")
    assert fakes.did("note", "billing") == 0
    file.write_text("key,owners\nbilling,nobody\n")
    write_policy(harness, (harness.folder / "policy.toml").read_text())
    assert len(list_reloads(harness)) == 2
