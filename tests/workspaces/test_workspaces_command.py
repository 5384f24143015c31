"""`countersign workspaces`, and other commands about one of many workspaces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bot.cli.doctor.doctor import MANY_WORKSPACES_ERROR
from bot.cli.workspaces import NO_INSTALLATIONS_NOTICE, SINGLE_WORKSPACE_ERROR
from countersign.cli.commands import main
from storage.states import InstallationState
from tests.workspaces.hosting import ONE, SUPPORT, TWO, Hosting

RunCommand = Callable[..., tuple[int, str]]
ACTIVE, PAUSE, REMOVED = InstallationState


@pytest.fixture
def hosting(make_hosting: Callable[..., Hosting]) -> Hosting:
    """A process for two workspaces, in which nobody has installed the bot yet."""
    made = make_hosting()
    made.start()
    return made


@pytest.fixture
def run_command(
    hosting: Hosting, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> RunCommand:
    """A function that runs a command, about a workspace or none; returns exit code and output."""
    for name in ("DATABASE_URL", "COUNTERSIGN_KEY", "SLACK_BOT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in hosting.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(hosting.folder)

    def call(*words: str, workspace: str = "") -> tuple[int, str]:
        monkeypatch.setenv("COUNTERSIGN_WORKSPACE", workspace)
        try:
            code = main(list(words))
        except SystemExit as ended:
            code = int(str(ended.code))
        said = capsys.readouterr()
        return code, said.out + said.err

    return call


@pytest.fixture
def installed(hosting: Hosting) -> Hosting:
    """A process for two workspaces, with the bot installed in both."""
    for team in hosting.teams:
        hosting.install(team)
    return hosting


def test_a_command_about_a_workspace_without_requests_works(
    installed: Hosting, run_command: RunCommand
) -> None:
    """Its record does not name the workspace yet; the setting does."""
    code, said = run_command("pending", workspace=ONE)
    assert (code, said) == (0, "Nothing is waiting.\n")


def test_the_list_without_installations_says_where_to_install(
    hosting: Hosting, run_command: RunCommand
) -> None:
    """It has the address of the page. Doctor has nothing to say."""
    assert run_command("workspaces", "list") == (
        0,
        f"{NO_INSTALLATIONS_NOTICE.format(hosting.url)}\n",
    )
    assert run_command("workspaces", "doctor") == (0, "")


def test_list_and_show_describe_installations_without_tokens(
    installed: Hosting, run_command: RunCommand
) -> None:
    """The list has a line for each; show has all that is known of one."""
    code, said = run_command("workspaces", "list")
    assert (code, said.splitlines()) == (
        0,
        ["T0SANDBOX    active   Sandbox Coffee", "T0SANDBOXB   active   Sandbox Tea"],
    )
    assert run_command("workspaces", "list", workspace=ONE) == (code, said)
    code, said = run_command("workspaces", "show", ONE)
    assert code == 0
    assert said.startswith("T0SANDBOX  Sandbox Coffee\n    active, installed by UANA00001 ")
    assert f"its policy, settings and record: {installed.folder}/workspaces/{ONE}\n" in said
    assert "xoxb" not in said
    assert run_command("workspaces", "show", "T0NONE") == (
        1,
        "The bot is not installed in T0NONE.\n",
    )


@pytest.mark.parametrize("words", [["show"], ["pause"], ["list", ONE], ["keys", ONE], ["stop"]])
def test_the_usage_says_which_actions_need_a_workspace(
    run_command: RunCommand, words: list[str]
) -> None:
    """An unknown action is refused as well."""
    code, said = run_command("workspaces", *words)
    assert code == 2
    wrong = {"list": f"leave out {ONE}", "keys": f"leave out {ONE}", "stop": "invalid choice"}
    assert wrong.get(words[0], f"{words[0]} needs a workspace's id") in said


def test_pause_and_resume_stop_and_continue_a_workspace(
    installed: Hosting, run_command: RunCommand
) -> None:
    """Each command says what it did, and the bot follows."""
    one = installed.workspace(ONE)
    one.command("/approvals help")
    done = f"{ONE} is paused: what is waiting there is kept, but new messages are not read.\n"
    assert run_command("workspaces", "pause", ONE) == (0, done)
    assert run_command("workspaces", "pause", ONE) == (0, "It is already paused.\n")
    installed.clock.advance(1)
    installed.wait(lambda: one.app is None)
    assert run_command("workspaces", "resume", ONE) == (0, f"{ONE} is active.\n")
    assert run_command("workspaces", "resume", ONE) == (0, "It is already active.\n")
    assert installed.row(ONE).state is ACTIVE


def test_remove_uninstalls_the_bot_at_slack_too(
    installed: Hosting, run_command: RunCommand
) -> None:
    """Afterwards other actions refuse; only installing again helps."""
    assert installed.slack.workspace(ONE).world.app.installed
    done = f"{ONE} is removed. Its data is deleted in 30 days.\n"
    assert run_command("workspaces", "remove", ONE) == (0, done)
    assert not installed.slack.workspace(ONE).world.app.installed
    assert installed.row(ONE).state is REMOVED
    for what in ("remove", "pause", "resume", "doctor"):
        code, said = run_command("workspaces", what, ONE)
        assert code == 1
        assert "uninstalled" in said
    assert "it was removed" in run_command("workspaces", "show", ONE)[1]
    assert run_command("workspaces", "doctor")[1].count("ok    bot token") == 1


def test_a_workspace_that_uninstalled_while_the_bot_was_down_is_removed(
    installed: Hosting, run_command: RunCommand
) -> None:
    """Slack's events never arrived: doctor says what to do, and the data is deleted as usual."""
    installed.stop()
    installed.slack.workspace(ONE).uninstall()
    code, said = run_command("workspaces", "doctor", ONE)
    assert code == 1
    assert "fail  bot token: Slack answers token_revoked. Install Countersign there again" in said
    assert f"`countersign workspaces remove {ONE}`" in said
    assert "SLACK_BOT_TOKEN" not in said
    done = f"{ONE} is removed, and had already been uninstalled at Slack. "
    assert run_command("workspaces", "remove", ONE) == (
        0,
        f"{done}Its data is deleted in 30 days.\n",
    )
    installed.start()
    assert installed.row(ONE).sealed_tokens == b""
    installed.clock.advance(31 * 24 * 3600)
    installed.wait(lambda: not installed.workspace(ONE).folder.exists())


def test_remove_does_nothing_if_slack_does_not_uninstall(
    installed: Hosting, run_command: RunCommand
) -> None:
    """The output says why."""
    installed.slack.faults.fail("apps.uninstall", "fatal_error")
    code, said = run_command("workspaces", "remove", ONE)
    assert code == 1
    assert said.startswith("Nothing was done: ")
    assert installed.row(ONE).state is ACTIVE


def test_the_keys_command_moves_tokens_to_the_first_key(
    installed: Hosting, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a key is missing, the output says so."""
    done = "All tokens are encrypted with the first key. No other key is in use any more.\n"
    assert run_command("workspaces", "keys") == (0, done)
    old = (installed.folder / "workspaces" / "installations.db.key").read_text().strip()
    monkeypatch.setenv("COUNTERSIGN_TOKEN_KEYS", f"new:{'n' * 32}")
    code, said = run_command("workspaces", "doctor", ONE)
    assert code == 1
    assert "which is not among those of COUNTERSIGN_TOKEN_KEYS" in said
    assert old not in said
    code, said = run_command("workspaces", "keys")
    assert code == 1
    assert "Tokens that are still encrypted with another key: 2. Keep that key.\n" in said
    assert "No other key" not in said
    monkeypatch.setenv("COUNTERSIGN_TOKEN_KEYS", "no colon")
    code, said = run_command("workspaces", "keys")
    assert code in (1, 2)
    assert "write id:secret,id:secret" in said
    assert "Traceback" not in said


def test_doctor_checks_one_workspace_or_each(installed: Hosting, run_command: RunCommand) -> None:
    """`countersign doctor` refers to `countersign workspaces doctor`."""
    (installed.folder / "workspaces" / TWO).mkdir(parents=True, exist_ok=True)
    (installed.folder / "workspaces" / TWO / "policy.toml").write_text("nonsense")
    code, said = run_command("workspaces", "doctor", ONE)
    assert code == 0
    assert said.startswith("T0SANDBOX  Sandbox Coffee\n")
    assert "0 wrong" in said
    listening = installed.environ["COUNTERSIGN_HTTP"]
    assert f"ok    http address: a bot is ready at {listening}, " in said
    code, said = run_command("workspaces", "doctor")
    assert code == 1
    assert "T0SANDBOXB  Sandbox Tea\nfail  policy: " in said
    for workspace in ("", ONE):
        code, said = run_command("doctor", workspace=workspace)
        assert code == 2
        assert MANY_WORKSPACES_ERROR in said.replace("\n", " ")


def test_commands_read_the_record_of_their_workspace_only(
    installed: Hosting, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is in COUNTERSIGN_WORKSPACE; without it, commands say that it is missing."""
    for team in (ONE, TWO):
        workspace = installed.workspace(team)
        workspace.card(workspace.ask(f"of {team}"))
        workspace.settle()
    ids = {team: installed.workspace(team).calls()[0].id for team in (ONE, TWO)}
    for team, other in ((ONE, TWO), (TWO, ONE)):
        code, said = run_command("pending", workspace=team)
        assert code == 0
        assert ids[team] in said
        assert ids[other] not in said
        assert run_command("show", ids[team], workspace=team)[0] == 0
        assert run_command("show", ids[other], workspace=team)[0] != 0
        code, said = run_command("audit", "verify", workspace=team)
        assert (code, said.startswith("Sound: ")) == (0, True)
        code, said = run_command("backup", str(tmp_path / f"{team}.db"), workspace=team)
        assert (code, "1 request, 1 call" in said) == (0, True)
        assert run_command("report", workspace=team)[0] == 0
        assert run_command("key", "list", workspace=team)[0] == 0
    for words in (["pending"], ["audit", "verify"], ["backup", "b"], ["report"], ["key", "list"]):
        code, said = run_command(*words)
        assert code != 0
        assert "COUNTERSIGN_WORKSPACE: is missing; it says which workspace" in said
        assert said.count("COUNTERSIGN_WORKSPACE") == 1
        code, said = run_command(*words, workspace="nope")
        assert code != 0
        assert said.count("COUNTERSIGN_WORKSPACE") == 1
        assert "does not look like one" in said
        assert "Which workspace a command is about, T…" in said
        code, said = run_command(*words, workspace="T0NONE")
        assert code == 1
        assert "there is no database" in said
    assert installed.workspace(ONE).person("ana").everything(SUPPORT)


def test_the_workspaces_command_refuses_an_installation_for_one(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that there is only one workspace."""
    monkeypatch.delenv("COUNTERSIGN_CLIENT_ID")
    monkeypatch.delenv("COUNTERSIGN_CLIENT_SECRET")
    code, said = run_command("workspaces", "list")
    assert code == 2
    assert SINGLE_WORKSPACE_ERROR in said
