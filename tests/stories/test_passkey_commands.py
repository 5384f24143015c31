"""The operator's view of passkeys: `passkeys list` and `revoke`, `explain`, setup problems."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.authenticator import Authenticator
from tests.stories.enrolling import enrol, press_in_dm, wait_for_dm
from tests.stories.harness import Harness
from tests.stories.messages import words
from tests.stories.operator_steps import command, environment, with_tools
from tests.stories.signing import ADDRESS, add_passkey, forget_passkeys, give_passkey, passkeys_of
from tests.stories.steps import arrived

SETTINGS = ADDRESS
POLICY = """
[passkeys]
days = 30
alarm = ["UDAN00001"]

[defaults]
approvers = ["UANA00001", "UCLEO0001"]
deadline = "1h"
signature = "passkey"
"""


@pytest.fixture(autouse=True)
def _operator_environment(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give commands the bot's folder and settings; remove all passkeys after every story."""
    with_tools(harness.folder)
    monkeypatch.chdir(harness.folder)
    for name, value in {**environment(harness), **ADDRESS}.items():
        monkeypatch.setenv(name, value)
    yield
    forget_passkeys(harness)


def test_the_command_lists_and_revokes_passkeys(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list says whose each is and whether it counts; owner and security are told of the end."""
    assert "There are no passkeys" in command(capsys, "passkeys", "list")[1]
    give_passkey(harness, "ana")
    add_passkey(harness, "cleo", Authenticator(), counts_from=None)
    [mine] = [each for each in passkeys_of(harness, "ana") if not each.revoked_at]
    code, said = command(capsys, "passkeys", "list")
    assert code == 0, said
    for part in ("Ana Ruiz", mine.id, "ana's phone (unknown model): counts", "not used yet"):
        assert part in said
    assert "nobody approved it" in said
    before = time.monotonic()
    code, said = command(capsys, "passkeys", "revoke", mine.id)
    assert (code, "is revoked" in said) == (0, True), said
    wait_for_dm(harness, "ana", "was revoked", "ana's phone")
    wait_for_dm(harness, "dan", "was revoked", "ana's phone")
    assert time.monotonic() - before < 15  # at once, not at the bot's next regular look
    assert mine.id not in command(capsys, "passkeys", "list")[1]
    code, said = command(capsys, "passkeys", "revoke", mine.id)
    assert (code, "no passkey with that id" in said) == (1, True)
    with pytest.raises(SystemExit):
        command(capsys, "passkeys", "revoke")


def test_the_list_names_owners_who_have_left(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their passkeys do not count, but stay until somebody revokes them."""
    give_passkey(harness, "ana")
    try:
        harness.slack.people["ana"].deleted = True
        assert "no longer an active member" in command(capsys, "passkeys", "list")[1]
    finally:
        harness.slack.people["ana"].deleted = False
        harness.clock.advance(61)


def test_explain_says_who_has_to_sign_and_who_can(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody can at first, then Cleo."""
    asked = ("explain", "note", "text=tulips", "--as", "@ben", "--in", "C0SUPPORT")
    said = command(capsys, *asked)[1]
    assert "signed with a passkey" in said
    assert "Can sign now: nobody, as no passkey of theirs counts." in said
    before = harness.clock.now() - timedelta(days=1)  # the command's clock is the machine's
    add_passkey(harness, "cleo", Authenticator(), created_at=before, counts_from=before)
    assert "Can sign now: Cleo Marti" in command(capsys, *asked)[1]


def test_the_setup_check_says_who_cannot_sign(harness: Harness) -> None:
    """It reports that none of the approvers can sign, until one can."""
    harness.app.start_inspection()
    look = harness.app.inspection
    assert look is not None
    found = "\n".join(map(str, look.find_setup_problems()))
    assert "needs 1 signed with a passkey, but none of them can sign" in found
    assert "Ana Ruiz, Cleo" in found
    add_passkey(harness, "cleo", Authenticator(rp_id="old.example.com"))
    found = "\n".join(map(str, look.find_setup_problems()))
    assert "some passkeys of Cleo Martin were made at another address" in found
    assert "none of them can sign" in found
    give_passkey(harness, "ana")
    assert "can sign" not in "\n".join(map(str, look.find_setup_problems()))


def test_a_passkeys_name_is_shown_as_plain_text(harness: Harness) -> None:
    """Its owner chose a name with a mention and a link; neither works in the message."""
    name = "<!channel> *free* <https://evil.example|phone>"
    enrol(harness, "ana", name)
    message = wait_for_dm(harness, "ana", "A new passkey was added")
    assert "<!channel>" not in words(message)
    assert "<https://evil" not in words(message)


def test_nobody_revokes_another_persons_passkey_with_a_button(harness: Harness) -> None:
    """Even if they send what the button of its person sends; only that person and operators can."""
    _, mine = enrol(harness, "ana")
    message = wait_for_dm(harness, "ana", "A new passkey was added")
    dm = harness.person("ana").dm_channel
    harness.person("ben").click(dm, message["ts"], "disown_passkey", seen=message)
    arrived(harness)
    [row] = [each for each in passkeys_of(harness, "ana") if each.id == mine.id]
    assert row.revoked_at is None
    press_in_dm(harness, "ana", message, "disown_passkey")
    [row] = [each for each in passkeys_of(harness, "ana") if each.id == mine.id]
    assert row.revoked_at is not None
