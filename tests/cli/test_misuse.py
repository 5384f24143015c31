"""Wrong arguments and settings end every command with a sentence, and without a traceback."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from bot.monitoring.logs import LogFormat, configure_logging
from bot.policy.evaluation import PolicyError, parse
from countersign.cli.commands import list_installed_commands, main
from tests.pages import ROOT

NOBODY = "postgresql://nobody:secret-word@127.0.0.1:1/none"
POLICY = '[defaults]\napprovers = ["@shop-leads"]\n'
# all commands that read or write the record, with arguments
RECORD = (
    *(["audit", "verify"], ["audit", "export"], ["audit", "show", "x"], ["report"], ["pending"]),
    *(["show", "x"], ["purge", "--older-than", "365d"], ["backup", "b.db"], ["restore", "b.db"]),
    ["policy", "replay", "--since", "1d", "--policy", "policy.toml"],
)
ASKING_THE_BOT = (  # all commands that ask a running bot
    *(["key", "list"], ["approve", "x"], ["reject", "x", "--reason", "no"], ["cancel", "x"]),
    *(["edit", "x", "a=b"], ["answer", "x", "yes"], ["resolve", "x", "done"], ["chat", "--plain"]),
)


# all other commands, except those that need no setting, and `hook`, which answers Claude Code in
# its own way
OTHERS = (
    *(["run"], ["serve"], ["doctor"], ["explain", "x"], ["policy", "check"], ["receipt", "x"]),
    *(["workspaces", "list"], ["passkeys", "list"], ["mcp", "accept"], ["forget", "UANA00001"]),
    *(["export", "UANA00001"], ["copy-to", NOBODY], ["mcp-proxy", "--", "true"]),
    *(["outcome", "id:x", "succeeded"], ["ask", "deploy", "--title", "T", "--effect", "E"]),
)
NEEDS_NOTHING = {"demo", "sandbox", "verify", "hook"}
ALL_COMMANDS = [*(each for each in RECORD if "--policy" not in each), *ASKING_THE_BOT, *OTHERS]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a sound policy, a folder, a file that is no text."""
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
def run_command(capsys: pytest.CaptureFixture[str]) -> Callable[[list[str]], Ended]:
    """A function that runs a command; returns the exit code and the standard error."""

    def run(words: list[str]) -> Ended:
        try:
            code = main(words)
        except SystemExit as end:
            code = int(str(end.code))
        said = capsys.readouterr()
        return code, said.err or said.out

    return run


def is_sentence(said: str) -> bool:
    """Whether a text is not empty, and has neither a traceback nor a bare error class."""
    bare = re.search(r"\(?\b(OperationalError|DatabaseError|OSError|ValueError)\b\)?", said)
    return bool(said.strip()) and "Traceback" not in said and bare is None


@pytest.mark.parametrize("name", list_installed_commands())
def test_an_unknown_option_shows_the_usage_of_that_command(
    name: str, run_command: Callable[[list[str]], Ended]
) -> None:
    """It does not show that of the whole command line."""
    code, said = run_command([name, "--no-such-option"])
    assert code == list_installed_commands()[name].misuse_exit_code
    assert said.startswith(f"usage: countersign {name} ")
    assert "[--version]" not in said


def test_arguments_that_a_command_refuses_show_its_usage(
    run_command: Callable[[list[str]], Ended],
) -> None:
    """The command itself finds the error, not the parser."""
    code, said = run_command(["audit", "show"])
    assert (code, said.startswith("usage: countersign audit ")) == (2, True)
    assert "[--version]" not in said


@pytest.mark.parametrize(("name", "needed"), [("explain", "tool"), ("edit", "id"), ("ask", "name")])
def test_only_required_arguments_are_called_missing(
    name: str, needed: str, run_command: Callable[[list[str]], Ended]
) -> None:
    """Optional ones are not named."""
    assert run_command([name])[1].endswith(f"the following arguments are required: {needed}\n")


@pytest.mark.long
def test_a_missing_network_is_reported_only_by_the_checks(folder: Path) -> None:
    """Libraries print nothing between them."""
    command = [sys.executable, "-m", "bot", "doctor"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert "Slack cannot be reached (Connection refused)" in done.stdout


def test_a_missing_package_for_servers_names_the_setting(
    folder: Path, run_command: Callable[[list[str]], Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not name the setting for modules."""
    (folder / "servers.toml").write_text('[[server]]\nname = "time"\ncommand = "uvx"\n')
    monkeypatch.setenv("COUNTERSIGN_SERVERS", "servers.toml")
    monkeypatch.setitem(sys.modules, "mcp", None)  # as if it were not installed
    code, said = run_command(["explain", "post_message"])
    assert code == 2
    assert said.endswith("pip install 'countersign-bot[mcp]'; see COUNTERSIGN_SERVERS\n")


def test_output_that_cannot_be_written_is_reported_once(folder: Path) -> None:
    """As in an export to a full disk. The exit code is 1."""
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
def test_an_invalid_port_ends_with_the_usage(
    name: str, port: str, run_command: Callable[[list[str]], Ended]
) -> None:
    """This is the same for each command with a port."""
    code, said = run_command([name, f"--port={port}"])
    assert code == 2
    assert said.startswith(f"usage: countersign {name} ")
    assert f"{port!r} is not a port" in said


@pytest.mark.parametrize("words", [*RECORD, ["run"]], ids=" ".join)
@pytest.mark.parametrize(
    "address",
    [NOBODY, "sqlite:///folder", "sqlite:///none.db", "sqlite:///garbage", "nonsense"],
)
def test_an_unusable_record_is_reported_in_a_sentence(
    words: list[str],
    address: str,
    run_command: Callable[[list[str]], Ended],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is an unreachable server, a folder, a missing file or no database."""
    monkeypatch.setenv("DATABASE_URL", address)
    code, said = run_command(words)
    assert code in (1, 2), said
    assert is_sentence(said), said
    assert "secret-word" not in said


@pytest.mark.parametrize("given", [{}, {"COUNTERSIGN_OPERATOR": "not an id"}], ids=["no", "wrong"])
@pytest.mark.parametrize("words", ALL_COMMANDS, ids=" ".join)
def test_missing_or_wrong_settings_have_the_exit_code_of_misuse(
    words: list[str],
    given: dict[str, str],
    run_command: Callable[[list[str]], Ended],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is 2; `doctor` has done its work and ends with 1, and `ask` ends with 3 whenever it cannot
    ask.
    """
    for name in [each for each in os.environ if re.match("COUNTERSIGN_|SLACK_|OPENAI_", each)]:
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    code, said = run_command(words)
    assert code == {"doctor": 1, "ask": 3}.get(words[0], 2), said
    assert re.search("COUNTERSIGN_|SLACK_", said)
    assert is_sentence(said), said


def test_the_tables_have_every_command() -> None:
    """A new command has to be added."""
    tried = {words[0] for words in ALL_COMMANDS}
    assert tried | NEEDS_NOTHING == set(list_installed_commands())


def test_a_working_directory_that_is_gone_is_reported_in_a_sentence(
    folder: Path, run_command: Callable[[list[str]], Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a deployment that replaced it, in a shell that was left open."""
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert run_command(["doctor"]) == (
        1,
        "The working directory cannot be used: No such file or directory.\n",
    )


def test_an_account_without_a_home_folder_has_the_root_as_one(
    run_command: Callable[[list[str]], Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container the user may be any number, without an entry. slack_sdk wants a folder."""

    def find_no_entry(_uid: int) -> NoReturn:
        raise KeyError

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", find_no_entry)
    with pytest.raises(RuntimeError):
        Path.home()
    run_command(["policy", "check"])
    assert Path.home() == Path("/")


@pytest.mark.parametrize("words", ASKING_THE_BOT, ids=" ".join)
def test_a_missing_bot_is_reported_in_a_sentence(
    words: list[str], run_command: Callable[[list[str]], Ended]
) -> None:
    """These commands ask the running bot."""
    code, said = run_command(words)
    assert code in (1, 2)
    assert is_sentence(said), said


@pytest.mark.parametrize(
    "variable", ["COUNTERSIGN_POLICY", "COUNTERSIGN_DATABASES", "COUNTERSIGN_SERVERS"]
)
@pytest.mark.parametrize("value", ["folder", "none.toml", "garbage", "text.toml"])
@pytest.mark.parametrize(
    "words", [["run"], ["doctor"], ["explain", "x"], ["audit", "verify"]], ids=" ".join
)
def test_an_unusable_file_is_reported_in_a_sentence(
    variable: str,
    value: str,
    words: list[str],
    run_command: Callable[[list[str]], Ended],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is a folder, missing, unreadable or no TOML, and the sentence says which."""
    monkeypatch.setenv(variable, value)
    code, said = run_command(words)
    assert code in (1, 2)
    assert is_sentence(said), said
    if value == "folder" and words != ["audit", "verify"]:
        assert "it is a folder" in said
        assert "no such file" not in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[defaults]\napprover = ["U0AAAAAA1"]\n', "unknown key (did you mean approvers?)"),
        (f'{POLICY}[[rule]]\nname = "r"\nverdit = "ask"\n', "unknown key (did you mean verdict?)"),
        (
            f'{POLICY}[[rule]]\nname = "r"\nverdict = "ask"\nstages = [{{approver = ["@a"]}}]\n',
            "(did you mean approvers?)",
        ),
        (f"{POLICY}[moods]\n", "unknown key (did you mean modes?)"),
        (f"{POLICY}zzz = 1\n", "zzz: unknown key; correct or remove it"),
    ],
)
def test_a_misspelt_key_is_reported_with_the_one_that_is_meant(text: str, said: str) -> None:
    """This holds at every depth of the policy file."""
    with pytest.raises(PolicyError) as caught:
        parse(text)
    assert said in "\n".join(caught.value.problems)


def test_requester_may_name_a_list_of_approvers() -> None:
    """One name, or several beside ids and groups. An unknown name is refused."""
    named = '[approvers]\nshop = ["UANA00001", "@shop-leads"]\n' + POLICY
    rule = '[[rule]]\nname = "r"\nverdict = "ask"\nrequester = '
    assert parse(f'{named}{rule}"shop"').rules[0].requesters == ("UANA00001", "@shop-leads")
    several = parse(f'{named}{rule}["UBEN00001", "shop"]').rules[0].requesters
    assert several == ("UBEN00001", "UANA00001", "@shop-leads")
    with pytest.raises(PolicyError):
        parse(f'{named}{rule}"shops"\n[[rule]]\nname = "o"\nverdict = "ask"\napprovers = ["shop"]')


@pytest.mark.parametrize("level", ["info", "debug"])
def test_the_scheduler_logs_only_at_debug_level(level: str) -> None:
    """Its lines about each job would be most of the log."""
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
