"""Seed files: their content is in the local Slack, and a mistake is named with its place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from slack_sdk import WebClient

from slack_sandbox.server import Sandbox
from slack_sandbox.setup.seed_file import SeedError, read_seed
from slack_sandbox.standalone import populate

EXAMPLE = Path(__file__).parents[3] / "docs" / "sandbox-seed.toml"
MANIFEST = (
    "features: {bot_user: {display_name: weather}, "
    "slash_commands: [{command: /rain, description: Rain.}]}"
)


def test_the_documented_seed_file_is_loaded_completely() -> None:
    """Every row of the documented example is in its workspace, seen through the Web API."""
    seed, apps = read_seed(EXAMPLE)
    with Sandbox(apps[0].manifest, seed=seed) as sandbox:
        populate(sandbox, apps)
        client = WebClient("xoxb-bookshop", base_url=sandbox.api_url)
        assert client.apps_connections_open(app_token="xapp-bookshop")["ok"]
        ids = {name: person.id for name, person in sandbox.people.items()}
        users = {u["name"]: u for u in client.users_list()["members"]}
        assert set(users) == {"ida", "jon", "kim", "max", "countersign"}
        assert (users["ida"]["is_admin"], users["ida"]["tz"]) == (True, "Europe/Copenhagen")
        assert (users["jon"]["id"], users["max"]["deleted"]) == ("UJON00001", True)
        assert (users["kim"]["is_restricted"], users["kim"]["is_ultra_restricted"]) == (True, False)
        listed = client.conversations_list(types="public_channel,private_channel")["channels"]
        channels = {c["name"]: c for c in listed}
        assert set(channels) == {"general", "orders", "board", "with-papermill", "old-news"}
        assert channels["board"]["is_private"]
        assert (
            channels["with-papermill"]["is_ext_shared"],
            channels["old-news"]["is_archived"],
        ) == (True, True)
        assert channels["orders"]["topic"]["value"] == "What came in, what went out"
        members = client.conversations_members(channel=channels["orders"]["id"])["members"]
        assert members == [ids["ida"], ids["jon"], ids["kim"], sandbox.bot_user_id]
        [group] = client.usergroups_list(include_users=True)["usergroups"]
        assert (group["handle"], group["users"]) == ("sellers", [ids["ida"], ids["jon"]])
        assert sandbox.people["ida"].email == "ida.holm@northwind.example"
        assert sandbox.people["lea"].email == "lea@papermill.example"
        assert client.auth_test()["team"] == "Northwind Books"


def test_a_request_url_in_the_seed_means_http(tmp_path: Path) -> None:
    """It fills the places where the manifest has no URL."""
    (tmp_path / "app.yml").write_text(MANIFEST + "\nsettings: {socket_mode_enabled: true}")
    (tmp_path / "seed.toml").write_text(
        '[[people]]\nname = "ida"\n[[apps]]\nmanifest = "app.yml"\nrequest_url = "http://127.0.0.1:9/slack"'
    )
    seed, apps = read_seed(tmp_path / "seed.toml")
    app = Sandbox(apps[0].manifest, seed=seed).world.app
    urls = {app.events_url, app.interactivity_url, app.options_url, app.command_url("/rain")}
    assert (app.over_http, urls) == (True, {"http://127.0.0.1:9/slack"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[people]\n", "Expected ']]' at the end of an array declaration (at line 1, column 9)"),
        ("people = []", "people: List should have at least 1 item"),
        ('[[people]]\nname = "Ida"', "people[1].name: String should match pattern"),
        ('[[people]]\nname = "ida"\nage = 7', "people[1].age: Extra inputs are not permitted"),
        (
            '[[people]]\nname = "ida"\nadmin = "yes"',
            "people[1].admin: Input should be a valid boolean",
        ),
        (
            '[[people]]\nname = "ida"\ntz = "Mars/Base"',
            "people[1].tz: Value error, there is no time zone 'Mars/Base'",
        ),
        (
            '[[people]]\nname = "ida"\nguest = "maybe"',
            "people[1].guest: Input should be 'no', 'multi-channel'",
        ),
        ('[[people]]\nname = "ida"\n[[people]]\nname = "ida"', "people: 'ida' is there 2 times"),
        (
            '[[people]]\nname = "ida"\nworkspace = "moon"',
            "people, ida: there is no workspace 'moon'",
        ),
        (
            '[[people]]\nname = "ida"\n[[channels]]\nname = "a"\nmembers = ["jo"]',
            "channels, a: there is no person 'jo'",
        ),
        (
            '[[people]]\nname = "ida"\n[[channels]]\nname = "a"\nconnect = true',
            "channels, a: connect takes a second",
        ),
        (
            '[[people]]\nname = "ida"\n[[groups]]\nhandle = "a"\nmembers = ["jo"]',
            "groups, a: there is no person 'jo'",
        ),
        (
            '[[people]]\nname = "ida"\n[[channels]]\nname = "a b"',
            "channels[1].name: String should match pattern",
        ),
        (
            '[[people]]\nname = "ida"\n[[apps]]\nmanifest = "gone.yml"',
            "gone.yml: No such file or directory",
        ),
        (
            '[[people]]\nname = "ida"\n[[apps]]\nmanifest = "bad.yml"',
            "bad.yml: features.slash_commands[1].command: ",
        ),
        (
            '[[people]]\nname = "ida"\n[[apps]]\nmanifest = "a"\nchannels = ["b"]',
            "apps, a: there is no channel 'b'",
        ),
        (
            '[[people]]\nname = "ida"\nid = "U12345"\n[[people]]\nname = "jo"\nid = "U12345"',
            "ids: 'U12345' is there 2 times",
        ),
    ],
)
def test_a_mistake_in_a_seed_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    """One line says which file, which row and what is wrong with it."""
    (tmp_path / "bad.yml").write_text(
        "features: {slash_commands: [{command: rain, description: Rain.}]}"
    )
    path = tmp_path / "seed.toml"
    path.write_text(text)
    with pytest.raises(SeedError) as refused:
        read_seed(path)
    sentence = str(refused.value)
    assert sentence.startswith(f"{path}: ")
    assert said in sentence
    assert "\n" not in sentence


def test_a_missing_seed_file_is_named(tmp_path: Path) -> None:
    """The error names the missing file."""
    with pytest.raises(SeedError, match=r"none\.toml: No such file or directory"):
        read_seed(tmp_path / "none.toml")


def test_files_are_read_as_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    """A seed file and its manifest, in a process whose own encoding is ASCII."""
    manifest = tmp_path / "manifest.yml"
    manifest.write_text("display_information: {name: Bücher}\n" + MANIFEST, "utf-8")
    seed = tmp_path / "seed.toml"
    seed.write_text(
        '# für alle\n[[people]]\nname = "ida"\n[[apps]]\nmanifest = "manifest.yml"\n',
        "utf-8",
    )
    script = (
        "import sys; from pathlib import Path; from slack_sandbox.setup.seed_file import read_seed;"
        "print(ascii(read_seed(Path(sys.argv[1]))[1][0].manifest['display_information']['name']))"
    )
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ended = subprocess.run(
        [sys.executable, "-c", script, seed],
        env=os.environ | ascii_only,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout == "'B\\xfccher'\n", ended.stderr
