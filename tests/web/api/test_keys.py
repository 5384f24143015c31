"""API keys are made and revoked by the running bot, and stored as hashes."""

from __future__ import annotations

import hashlib
import json

import pytest

from bot.http.keys import derive_webhook_secret
from countersign.cli.commands import main
from storage.models import Audit
from storage.programs import ProgramApiKey
from tests.client_keys import make_key
from tests.stories.harness import Harness
from tests.stories.operator_steps import command, environment, with_tools
from tests.web.api.program import Program


@pytest.fixture(autouse=True)
def at_the_machine(bot: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run commands where the bot runs, with its settings."""
    with_tools(bot.folder)
    monkeypatch.chdir(bot.folder)
    for name, value in environment(bot).items():
        monkeypatch.setenv(name, value)


def test_a_key_is_shown_once_stored_as_a_hash_listed_and_revoked(
    bot: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list has its name and owner. The secret of its webhooks is not stored."""
    made = ("key", "new", "night-job", "--for", "@ben", "--tools", "deploy_*, note", "--per-hour")
    code, said = command(capsys, *made, "7", "--webhook", "https://ci.example.com/told")
    assert code == 0, said
    [key] = [each for each in said.split() if each.startswith("csk_")]
    [signing] = [each for each in said.split() if each.startswith("whsec_")]
    _, id_, secret = key.split("_", 2)
    [row] = bot.all(ProgramApiKey, ProgramApiKey.name == "night-job")
    assert (row.id, row.hash) == (id_, hashlib.sha256(secret.encode()).hexdigest())
    kept = json.dumps(row.model_dump(), default=str)
    assert signing.removeprefix("whsec_") not in kept
    assert signing == derive_webhook_secret(bot.app.core.store.signing_key, id_)
    assert signing != derive_webhook_secret(b"the key of another installation", id_)
    assert (row.person, row.tool_patterns, row.per_hour) == ("UBEN00001", ("deploy_*", "note"), 7)
    assert [row.may_ask_for(each) for each in ("deploy_prod", "note", "notes", "wipe")] == [
        *(True, True),
        *(False, False),
    ]
    code, said = command(capsys, "key", "list")
    assert code == 0
    for part in ("night-job", id_, "Ben", "deploy_*, note", "7 an hour", "ci.example.com/told"):
        assert part in said
    assert secret not in said
    assert command(capsys, "key", "revoke", "night-job")[0] == 0
    assert "revoked" in command(capsys, "key", "list")[1]
    assert command(capsys, "key", "revoke", "night-job")[0] == 1
    told = [each for each in bot.all(Audit) if each.event.startswith("key.")]
    about = [each for each in told if "night-job" in each.data]
    assert [each.event for each in about] == ["key.made", "key.revoked"]
    assert secret not in "".join(each.data for each in about)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["Night", "--for", "@ben", "--tools", "*"], "small letters"),
        (["n", "--for", "@nobody", "--tools", "*"], "nobody called @nobody"),
        (["n", "--for", "UGUS00001", "--tools", "*"], "UGUS00001 is not a full member"),
        (["n", "--for", "@ben", "--tools", "note, a;b"], "names of tools"),
        (["n", "--for", "@ben", "--tools", ","], "names of tools"),
        (["n", "--for", "@ben", "--tools", "*", "--per-hour", "0"], "from 1 to 100,000"),
        (["n", "--for", "@ben", "--tools", "*", "--per-hour", "100001"], "from 1 to 100,000"),
        (["n", "--for", "@ben", "--tools", "*", "--webhook", "http://a.example"], "https://"),
        (["n", "--for", "@ben", "--tools", "*", "--webhook", "ftp://localhost/a"], "https://"),
        (["n", "--for", "@ben", "--tools", "*", "--webhook", "https://a:b@c.de"], "password"),
        (["n", "--for", "@ben", "--tools", "*", "--webhook", "https://a@c.de"], "user name"),
        (["n", "--for", "@ben", "--tools", "*", "--webhook", "https://:b@c.de"], "password"),
        (["n", "--for", "@ben", "--tools", "*", "--webhook", "https:///told"], "an address"),
        (["n", "--for", "@ben", "--tools", "*", "--webhook", "https://cé.de"], "an address"),
        (["n", "--for", "@ben", "--tools", "*", "--webhook", "https://c.de/\x7f"], "an address"),
        (["n", "--for", "@ben", "--tools", "*", "--webhook", "https://c.de:x"], "not an address"),
    ],
)
def test_an_invalid_key_is_refused_with_the_reason(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], bot: Harness
) -> None:
    """No key is made."""
    before = len(bot.all(ProgramApiKey))
    code, heard = command(capsys, "key", "new", *words)
    assert (code, said in heard) == (1, True), heard
    assert len(bot.all(ProgramApiKey)) == before


def test_a_name_can_be_used_again_after_its_key_is_revoked(
    bot: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until then a second key of that name is refused."""
    new = ("key", "new", "twice", "--for", "UBEN00001", "--tools", "*")
    assert command(capsys, *new)[0] == 0
    code, said = command(capsys, *new)
    assert (code, "there is already a key with that name" in said) == (1, True)
    assert command(capsys, "key", "revoke", "twice")[0] == 0
    assert command(capsys, *new)[0] == 0
    assert len(bot.all(ProgramApiKey, ProgramApiKey.name == "twice")) == 2


def test_a_renewed_key_works_beside_the_old_one_until_that_is_revoked(
    bot: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """The new key has the same rights and sees the requests of the old one, which is revoked by its
    id.
    """
    new = ("key", "new", "renewed", "--for", "UBEN00001", "--tools", "note", "--per-hour", "9")
    old = Program(bot, _find_key(command(capsys, *new)[1]), "renewed")
    asked = old.note("asked before the renewal")
    code, said = command(capsys, "key", "renew", "renewed")
    assert code == 0, said
    fresh = Program(bot, _find_key(said), "renewed")
    assert old.look(asked)["id"] == fresh.look(asked)["id"] == asked["id"]
    assert {
        (each.tool_patterns, each.per_hour)
        for each in bot.all(ProgramApiKey)
        if each.name == "renewed"
    } == {(("note",), 9)}
    id_ = old.key.split("_")[1]
    assert command(capsys, "key", "revoke", f"csk_{id_}")[0] == 0
    path = f"/v1/requests/{asked['id']}"
    assert (old.ask("GET", path)[0], fresh.ask("GET", path)[0]) == (401, 200)
    code, said = command(capsys, "key", "renew", "nobody")
    assert (code, "there is no valid key with the name 'nobody'" in said) == (1, True)


@pytest.mark.parametrize("per_hour", ["1", "100000"])
def test_the_smallest_and_the_largest_limit_are_accepted(
    bot: Harness, capsys: pytest.CaptureFixture[str], per_hour: str
) -> None:
    """A key without a webhook has no secret for one."""
    name = f"limit-{per_hour}"
    made = ("key", "new", name, "--for", "UBEN00001", "--tools", "*", "--per-hour", per_hour)
    code, said = command(capsys, *made)
    assert (code, "whsec_" in said) == (0, False), said
    [row] = bot.all(ProgramApiKey, ProgramApiKey.name == name)
    assert row.per_hour == int(per_hour)


def _find_key(said: str) -> str:
    [key] = [each for each in said.split() if each.startswith("csk_")]
    return key


@pytest.mark.parametrize("words", [["new"], ["list", "x"], ["list", "--service"], ["new", "x"]])
def test_a_key_command_with_wrong_arguments_exits(words: list[str]) -> None:
    """The usage is shown."""
    with pytest.raises(SystemExit):
        main(["key", *words])


def test_keys_and_the_terminal_cannot_be_reached_over_the_network(bot: Harness) -> None:
    """They are only for the bot's own account on the machine."""
    key = make_key(bot.app.core.store.path, "curious", "@ben", ["*"]).key
    for path in ("/v1/keys", "/v1/keys/renew", "/v1/keys/revoke", "/v1/forget", "/v1/terminal"):
        for shown, status in ((key, 404), ("", 401)):
            assert Program(bot, shown).ask("POST", path, {"name": "curious"})[0] == status
    assert Program(bot, key).ask("GET", "/v1/chats/any")[0] == 404
    assert Program(bot, key).ask("GET", "/v1/requests")[0] == 200
    paths = Program(bot, key).ask("GET", "/v1/openapi.json")[1]["paths"]
    for_programs = ("/requests", "/questions", "/receipt-keys")
    assert not [each for each in paths if not each.startswith(for_programs)]
