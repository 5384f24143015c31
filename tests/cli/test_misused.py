"""What is typed or set wrongly ends every command with a sentence, and never with a traceback."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.monitoring.logs import LogFormat, configure_logging
from bot.policy.evaluation import PolicyError, parse
from countersign.cli.commands import list_installed_commands, main
from tests.pages import ROOT

NOBODY = "postgresql://nobody:secret-word@127.0.0.1:1/none"
POLICY = '[defaults]\napprovers = ["@shop-leads"]\n'
# every command that reads or writes the record, as it is typed
RECORD = (
    *(["audit", "verify"], ["audit", "export"], ["audit", "show", "x"], ["report"], ["pending"]),
    *(["show", "x"], ["purge", "--older-than", "365d"], ["backup", "b.db"], ["restore", "b.db"]),
    ["policy", "replay", "--since", "1d", "--policy", "policy.toml"],
)
DOORS = (  # those that ask a running bot
    *(["key", "list"], ["approve", "x"], ["reject", "x", "--reason", "no"], ["cancel", "x"]),
    *(["edit", "x", "a=b"], ["answer", "x", "yes"], ["resolve", "x", "done"], ["chat", "--plain"]),
)


# every other one, as it is typed; those that need no setting are left out, and `hook`, which
# answers Claude Code in its own way
MORE = (
    *(["run"], ["serve"], ["doctor"], ["explain", "x"], ["policy", "check"], ["receipt", "x"]),
    *(["workspaces", "list"], ["passkeys", "list"], ["mcp", "accept"], ["forget", "UANA00001"]),
    *(["export", "UANA00001"], ["copy-to", NOBODY], ["mcp-proxy", "--", "true"]),
    *(["outcome", "id:x", "succeeded"], ["ask", "deploy", "--title", "T", "--effect", "E"]),
)
NEEDS_NOTHING = {"demo", "sandbox", "verify", "hook"}
EVERY = [*(each for each in RECORD if "--policy" not in each), *DOORS, *MORE]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands are typed: a sound policy, a folder, what is no text."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.toml").write_text(POLICY)
    (tmp_path / "folder").mkdir()
    (tmp_path / "garbage").write_bytes(b"\xff\xfe not text")
    (tmp_path / "text.toml").write_text("this is not TOML")
    for name in ("DATABASE_URL", "COUNTERSIGN_DATABASES", "COUNTERSIGN_SERVERS", "COUNTERSIGN_URL"):
        monkeypatch.delenv(name, raising=False)
    given = {"COUNTERSIGN_POLICY": "policy.toml", "SLACK_API_URL": "http://127.0.0.1:1/api/"}
    given |= {"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1", "OPENAI_API_KEY": "x"}
    given |= {"COUNTERSIGN_OPERATOR": "UANA00001"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return tmp_path


Ended = tuple[int, str]


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Callable[[list[str]], Ended]:
    """Type a command: its exit code, and what the standard error says."""

    def typing(words: list[str]) -> Ended:
        try:
            code = main(words)
        except SystemExit as end:
            code = int(str(end.code))
        said = capsys.readouterr()
        return code, said.err or said.out

    return typing


def is_sentence(said: str) -> bool:
    """Whether it says something, and shows neither a traceback nor a bare kind of error."""
    bare = re.search(r"\(?\b(OperationalError|DatabaseError|OSError|ValueError)\b\)?", said)
    return bool(said.strip()) and "Traceback" not in said and bare is None


@pytest.mark.parametrize("name", list_installed_commands())
def test_an_unknown_option_shows_the_usage_of_that_command_alone(
    name: str, typed: Callable[[list[str]], Ended]
) -> None:
    """Not that of the whole command line."""
    code, said = typed([name, "--no-such-option"])
    assert code == list_installed_commands()[name].misuse_exit_code
    assert said.startswith(f"usage: countersign {name} ")
    assert "[--version]" not in said


def test_an_option_that_means_nothing_shows_the_usage_of_that_command_alone(
    typed: Callable[[list[str]], Ended],
) -> None:
    """Also where the command itself finds it out."""
    code, said = typed(["audit", "show"])
    assert (code, said.startswith("usage: countersign audit ")) == (2, True)
    assert "[--version]" not in said


@pytest.mark.parametrize(("name", "needed"), [("explain", "tool"), ("edit", "id"), ("ask", "name")])
def test_only_what_is_missing_is_called_missing(
    name: str, needed: str, typed: Callable[[list[str]], Ended]
) -> None:
    """Not the values, which may be left out."""
    assert typed([name])[1].endswith(f"the following arguments are required: {needed}\n")


@pytest.mark.long
def test_a_network_that_is_not_there_is_told_in_the_checks_alone(folder: Path) -> None:
    """No lines of a library stand between them, nor names of its errors."""
    command = [sys.executable, "-m", "bot", "doctor"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert "Slack cannot be reached (Connection refused)" in done.stdout


def test_without_the_package_for_servers_it_is_said_which_setting_wants_it(
    folder: Path, typed: Callable[[list[str]], Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the setting for modules of one's own."""
    (folder / "servers.toml").write_text('[[server]]\nname = "time"\ncommand = "uvx"\n')
    monkeypatch.setenv("COUNTERSIGN_SERVERS", "servers.toml")
    monkeypatch.setitem(sys.modules, "mcp", None)  # as if it were not installed
    code, said = typed(["explain", "post_message"])
    assert code == 2
    assert said.endswith("pip install 'countersign-bot[mcp]'; see COUNTERSIGN_SERVERS\n")


def test_what_cannot_be_printed_is_told_once(folder: Path) -> None:
    """As in a nightly export onto a disk that is full: a sentence, and the exit code 1."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "bot", "--version"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert done.stderr == (
        "This did not work: No space left on device; see `countersign doctor`.\n"
    )


@pytest.mark.parametrize("name", ["serve", "demo", "sandbox"])
@pytest.mark.parametrize("port", ["99999", "65536", "-1", "x", "", "1e3"])
def test_what_is_no_port_is_misuse(
    name: str, port: str, typed: Callable[[list[str]], Ended]
) -> None:
    """Each command that takes a port ends in the same way."""
    code, said = typed([name, f"--port={port}"])
    assert code == 2
    assert said.startswith(f"usage: countersign {name} ")
    assert f"{port!r} is not a port" in said


@pytest.mark.parametrize("words", [*RECORD, ["run"]], ids=" ".join)
@pytest.mark.parametrize(
    "address",
    [NOBODY, "sqlite:///folder", "sqlite:///none.db", "sqlite:///garbage", "nonsense"],
)
def test_a_record_that_cannot_be_had_is_said_in_words(
    words: list[str],
    address: str,
    typed: Callable[[list[str]], Ended],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that is not there, a folder, no file, no database: a sentence, and no success."""
    monkeypatch.setenv("DATABASE_URL", address)
    code, said = typed(words)
    assert code in (1, 2), said
    assert is_sentence(said), said
    assert "secret-word" not in said


@pytest.mark.parametrize("given", [{}, {"COUNTERSIGN_OPERATOR": "not an id"}], ids=["no", "wrong"])
@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_settings_that_are_missing_or_wrong_are_misuse(
    words: list[str],
    given: dict[str, str],
    typed: Callable[[list[str]], Ended],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever command finds it out; `doctor` has done its work then, and `ask` says 3 of all
    that keeps it from asking.
    """
    for name in [each for each in os.environ if re.match("COUNTERSIGN_|SLACK_|OPENAI_", each)]:
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    code, said = typed(words)
    assert code == {"doctor": 1, "ask": 3}.get(words[0], 2), said
    assert re.search("COUNTERSIGN_|SLACK_", said)
    assert is_sentence(said), said


def test_all_commands_are_tried_without_settings() -> None:
    """Also one that is new."""
    tried = {words[0] for words in EVERY}
    assert tried | NEEDS_NOTHING == set(list_installed_commands())


@pytest.mark.parametrize("words", DOORS, ids=" ".join)
def test_a_bot_that_is_not_there_is_said_in_words(
    words: list[str], typed: Callable[[list[str]], Ended]
) -> None:
    """Commands that ask the running bot say that there is none."""
    code, said = typed(words)
    assert code in (1, 2)
    assert is_sentence(said), said


@pytest.mark.parametrize(
    "variable", ["COUNTERSIGN_POLICY", "COUNTERSIGN_DATABASES", "COUNTERSIGN_SERVERS"]
)
@pytest.mark.parametrize("value", ["folder", "none.toml", "garbage", "text.toml"])
@pytest.mark.parametrize(
    "words", [["run"], ["doctor"], ["explain", "x"], ["audit", "verify"]], ids=" ".join
)
def test_a_file_that_cannot_be_read_is_said_in_words(
    variable: str,
    value: str,
    words: list[str],
    typed: Callable[[list[str]], Ended],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A folder is called a folder; what is missing, unreadable or no TOML is said to be."""
    monkeypatch.setenv(variable, value)
    code, said = typed(words)
    assert code in (1, 2)
    assert is_sentence(said), said
    if value == "folder" and words != ["audit", "verify"]:
        assert "it is a folder" in said
        assert "no such file" not in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[defaults]\napprover = ["U0AAAAAA1"]\n', "unknown key (is approvers meant?)"),
        (f'{POLICY}[[rule]]\nname = "r"\nverdit = "ask"\n', "unknown key (is verdict meant?)"),
        (
            f'{POLICY}[[rule]]\nname = "r"\nverdict = "ask"\nstages = [{{approver = ["@a"]}}]\n',
            "(is approvers meant?)",
        ),
        (f"{POLICY}[moods]\n", "unknown key (is modes meant?)"),
        (f"{POLICY}zzz = 1\n", "zzz: unknown key; correct or remove it"),
    ],
)
def test_a_key_that_is_misspelt_is_told_with_the_one_that_is_meant(text: str, said: str) -> None:
    """At every depth of the policy file."""
    with pytest.raises(PolicyError) as caught:
        parse(text)
    assert said in "\n".join(caught.value.problems)


def test_requester_takes_the_names_of_approvers() -> None:
    """One name, or several in a list, beside ids and groups; an unknown one is refused."""
    named = '[approvers]\nshop = ["UANA00001", "@shop-leads"]\n' + POLICY
    rule = '[[rule]]\nname = "r"\nverdict = "ask"\nrequester = '
    assert parse(f'{named}{rule}"shop"').rules[0].requesters == ("UANA00001", "@shop-leads")
    several = parse(f'{named}{rule}["UBEN00001", "shop"]').rules[0].requesters
    assert several == ("UBEN00001", "UANA00001", "@shop-leads")
    with pytest.raises(PolicyError):
        parse(f'{named}{rule}"shops"\n[[rule]]\nname = "o"\nverdict = "ask"\napprovers = ["shop"]')


@pytest.mark.parametrize("level", ["info", "debug"])
def test_the_scheduler_says_nothing_at_the_usual_level(level: str) -> None:
    """A line for each time that it wakes somebody would be most of the log; `debug` has them."""
    scheduler, root = logging.getLogger("apscheduler"), logging.getLogger()
    before, scheduler.level = scheduler.level, logging.NOTSET
    handlers, root.handlers = root.handlers, []
    was = root.level
    try:
        configure_logging(level, LogFormat.TEXT)
        executor = logging.getLogger("apscheduler.executors.default")
        assert executor.isEnabledFor(logging.INFO) is (level == "debug")
        assert executor.isEnabledFor(logging.WARNING)
    finally:
        scheduler.level, root.handlers = before, handlers
        root.setLevel(was)
        logging.getLogger().manager._clear_cache()
