"""A program that checks the receipt runs nothing without a valid one."""

from __future__ import annotations

import io
import json
import sys
from functools import partial
from pathlib import Path

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bot.approvals.receipts import ReceiptWriter
from countersign import Countersign, NotVerified, countersigned, receipts
from countersign.cli.ask import ExitCode
from countersign.cli.commands import main
from countersign.mcp_proxy.held_calls import HeldCallRunner, HeldOutcome
from countersign.request import Does, OwnAction
from countersign.schema import infer_schema_from_values
from storage.states import CallStatus
from tests.client.shop import Shop, get_result, key_for
from tests.client.test_hook import build_input, read_answer, run_hook

RAN: list[str] = []


@pytest.fixture
def keys(shop: Shop, tmp_path: Path) -> Path:
    """A file with the installation's public keys."""
    core = shop.harness.app.core
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(ReceiptWriter(core.key, core.tools).build_public_keys()))
    return path


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """A file with the key of another installation."""
    raw = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw()
    path = tmp_path / "others.json"
    path.write_text(json.dumps(receipts.build_public_jwk(raw)))
    return path


def build_client(shop: Shop, keys: Path, approvers: int = 1, name: str = "program") -> Countersign:
    web = shop.harness.app.endpoints.web
    assert web is not None
    key = key_for(shop.harness, f"{name}-{keys.stem}-{approvers}", "*")
    return Countersign(web.url, key, verify=keys, approvers=approvers)


def deploy_with(client: Countersign, version: str) -> str:
    """Call a decorated function."""

    @countersigned(effect="Deploy {version}", does="write", client=client, channel="C0SUPPORT")
    def deploy(version: str) -> str:
        RAN.append(version)
        return f"{version} is out"

    return deploy(version)


def test_a_valid_receipt_lets_the_function_run(shop: Shop, keys: Path) -> None:
    """For exactly what people approved, edited or not."""
    future = shop.start(deploy_with, build_client(shop, keys), "7.1")
    shop.edit("Deploy 7.1", version="7.1.1")
    shop.approve("Deploy 7.1.1", "cleo")
    assert get_result(future) == "7.1.1 is out"
    assert RAN[-1] == "7.1.1"


def test_a_receipt_of_another_installation_lets_nothing_run(shop: Shop, others: Path) -> None:
    """Anybody may answer at the address. The call is reported as failed."""
    future = shop.start(deploy_with, build_client(shop, others), "7.2")
    shop.approve("Deploy 7.2")
    with pytest.raises(NotVerified, match="key that was not given"):
        get_result(future)
    assert "7.2" not in RAN
    [call] = shop.list_calls("7.2")
    assert call.status is CallStatus.FAILED
    assert "Not run: its receipt is not valid." in call.note


def test_too_few_approvers_let_nothing_run(shop: Shop, keys: Path) -> None:
    """The program demands more than the policy."""
    future = shop.start(deploy_with, build_client(shop, keys, approvers=2), "7.3")
    shop.approve("Deploy 7.3")
    with pytest.raises(NotVerified, match="1 person has approved it, but it takes 2"):
        get_result(future)
    assert "7.3" not in RAN


def test_receipts_of_an_mcp_hosts_calls_are_checked(shop: Shop, keys: Path, others: Path) -> None:
    """`mcp-proxy` with COUNTERSIGN_VERIFY claims like a decorated function."""
    schema = infer_schema_from_values({"version": "7.7"})
    action = OwnAction("deploy", "Deploy", "Deploy {version}", Does.WRITE, schema)

    async def tell(_words: str) -> None: ...

    async def run(arguments: dict[str, str]) -> HeldOutcome[str]:
        RAN.append(arguments["version"])
        return HeldOutcome("out", True, "out")

    for path, version in ((keys, "7.7"), (others, "7.8")):
        held = HeldCallRunner(build_client(shop, path, name="host"), {"channel": "C0SUPPORT"}, 30.0)
        call = partial(held.run_after_approval, action, {"version": version}, run, tell)
        future = shop.start(anyio.run, call)
        shop.approve(f"Deploy {version}")
        if path is keys:
            assert get_result(future) == "out"
        else:
            with pytest.raises(NotVerified, match="its receipt is not valid"):
                get_result(future)
        assert (version in RAN) is (path is keys)


@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest"])
def test_the_hook_checks_the_receipt_of_what_it_allows(
    shop: Shop,
    keys: Path,
    others: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    event: str,
) -> None:
    """Also of an edited input. With others' keys the tool is not used, and people see why."""

    def approve(path: Path, command: str) -> str:
        monkeypatch.setenv("COUNTERSIGN_VERIFY", str(path))
        said = build_input(command, hook_event_name=event)
        future = shop.start(run_hook, monkeypatch, said)
        shop.edit(f"Use Bash: {command}", command=f"{command} -n")
        shop.approve(f"Use Bash: {command} -n", "cleo")
        assert get_result(future) == 0
        return capsys.readouterr().out

    allowed = approve(keys, f"make 7.9 {event}")
    assert '"allow"' in allowed
    assert f'"make 7.9 {event} -n"' in allowed
    denied = approve(others, f"make 7.10 {event}")
    assert '"deny"' in denied
    assert "its receipt is not valid" in denied
    [call] = shop.list_calls(f"make 7.10 {event}")
    assert (call.status, "receipt is not valid" in call.note) == (CallStatus.FAILED, True)


def test_the_hook_uses_nothing_that_nobody_has_approved(
    shop: Shop,
    keys: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The policy lets it be read without asking; there is no approval to verify."""
    for path, decided in (("", "allow"), (str(keys), "deny")):
        monkeypatch.setenv("COUNTERSIGN_VERIFY", path)
        monkeypatch.setattr("sys.stdin", io.StringIO(build_input(f"ls {decided}")))
        assert main(["hook", "--channel", "C0SUPPORT", "--does", "read"]) == 0
        answer = read_answer(capsys)
        assert answer["permissionDecision"] == decided
        assert ("Not run: " in answer["permissionDecisionReason"]) == bool(path)


def test_a_job_checks_the_receipt_before_its_command_runs(
    shop: Shop, keys: Path, others: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`ask --verify` runs it with the right keys; with others it ends with exit code 3."""
    for path, version, code in ((keys, "7.4", ExitCode.APPROVED), (others, "7.5", 3)):
        done = tmp_path / version
        words = ["ask", "deploy", f"version={version}", "--title", "Deploy"]
        words += ["--effect", "Deploy {version}", "--channel", "C0SUPPORT"]
        words += ["--verify", str(path), "--", "touch", str(done)]
        future = shop.start(main, words)
        shop.approve(f"Deploy {version}")
        assert get_result(future) == code
        assert done.exists() is (code == ExitCode.APPROVED)
    assert "its receipt is not valid" in capfd.readouterr().err


def test_a_file_without_keys_is_refused_at_once(
    shop: Shop,
    keys: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before anybody is asked, with what is missing, also by the variable and in every command.

    The same for a client that was installed without what verifies receipts.
    """
    empty = tmp_path / "empty.json"
    empty.write_text("{}")
    words = ["ask", "deploy", "version=7.6", "--channel", "C0SUPPORT"]
    for path, why in ((empty, "not an Ed25519"), (tmp_path / "missing.json", "No such file")):
        assert main([*words, "--verify", str(path)]) == ExitCode.NOT_ASKED
        assert why in capsys.readouterr().err
    monkeypatch.setenv("COUNTERSIGN_VERIFY", str(keys))
    monkeypatch.setitem(sys.modules, Ed25519PrivateKey.__module__, None)
    use = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(use)))
    for asked, code in ((words, 3), (["hook"], 0), (["mcp-proxy", "--", "true"], 2)):
        assert main(asked) == code
        assert "pip install 'countersign-client[verify]'" in "".join(capsys.readouterr())
    assert not shop.count_cards("7.6")
