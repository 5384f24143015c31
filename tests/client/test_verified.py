"""A program that checks the receipt of what it runs: without a right one it runs nothing."""

from __future__ import annotations

import json
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
from tests.client.shop import Shop, ended, key_for

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


def client_of(shop: Shop, keys: Path, approvers: int = 1, name: str = "program") -> Countersign:
    web = shop.harness.app.endpoints.web
    assert web is not None
    key = key_for(shop.harness, f"{name}-{keys.stem}-{approvers}", "*")
    return Countersign(web.url, key, verify=keys, approvers=approvers)


def deploys(client: Countersign, version: str) -> str:
    """A decorated function, called."""

    @countersigned(effect="Deploy {version}", does="write", client=client, channel="C0SUPPORT")
    def deploy(version: str) -> str:
        RAN.append(version)
        return f"{version} is out"

    return deploy(version)


def test_a_right_receipt_lets_it_run(shop: Shop, keys: Path) -> None:
    """For exactly what people approved, edited or not."""
    future = shop.begin(deploys, client_of(shop, keys), "7.1")
    shop.edit("Deploy 7.1", version="7.1.1")
    shop.approve("Deploy 7.1.1", "cleo")
    assert ended(future) == "7.1.1 is out"
    assert RAN[-1] == "7.1.1"


def test_a_receipt_of_another_installation_lets_nothing_run(shop: Shop, others: Path) -> None:
    """What answers at the address may be anybody; the call is reported as failed."""
    future = shop.begin(deploys, client_of(shop, others), "7.2")
    shop.approve("Deploy 7.2")
    with pytest.raises(NotVerified, match="key that was not given"):
        ended(future)
    assert "7.2" not in RAN
    [call] = shop.calls("7.2")
    assert call.status is CallStatus.FAILED
    assert "Not run: its receipt is not valid." in call.note


def test_too_few_approvers_let_nothing_run(shop: Shop, keys: Path) -> None:
    """The program asks for more than the policy."""
    future = shop.begin(deploys, client_of(shop, keys, approvers=2), "7.3")
    shop.approve("Deploy 7.3")
    with pytest.raises(NotVerified, match="1 person has approved it, but 2 are needed"):
        ended(future)
    assert "7.3" not in RAN


def test_a_call_of_an_mcp_host_is_checked_as_well(shop: Shop, keys: Path, others: Path) -> None:
    """`mcp-proxy` with COUNTERSIGN_VERIFY claims as a decorated function does."""
    schema = infer_schema_from_values({"version": "7.7"})
    action = OwnAction("deploy", "Deploy", "Deploy {version}", Does.WRITE, schema)

    async def tell(_words: str) -> None: ...

    async def run(arguments: dict[str, str]) -> HeldOutcome[str]:
        RAN.append(arguments["version"])
        return HeldOutcome("out", True, "out")

    for path, version in ((keys, "7.7"), (others, "7.8")):
        held = HeldCallRunner(client_of(shop, path, name="host"), {"channel": "C0SUPPORT"}, 30.0)
        call = partial(held.run_after_approval, action, {"version": version}, run, tell)
        future = shop.begin(anyio.run, call)
        shop.approve(f"Deploy {version}")
        if path is keys:
            assert ended(future) == "out"
        else:
            with pytest.raises(NotVerified, match="its receipt is not valid"):
                ended(future)
        assert (version in RAN) is (path is keys)


def test_a_job_checks_before_it_runs_its_command(
    shop: Shop, keys: Path, others: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`ask --verify` runs it with the right keys, and with others ends with 3."""
    for path, version, code in ((keys, "7.4", ExitCode.APPROVED), (others, "7.5", 3)):
        done = tmp_path / version
        words = ["ask", "deploy", f"version={version}", "--title", "Deploy"]
        words += ["--effect", "Deploy {version}", "--channel", "C0SUPPORT"]
        words += ["--verify", str(path), "--", "touch", str(done)]
        future = shop.begin(main, words)
        shop.approve(f"Deploy {version}")
        assert ended(future) == code
        assert done.exists() is (code == ExitCode.APPROVED)
    assert "its receipt is not valid" in capfd.readouterr().err


def test_a_file_without_keys_is_said_at_once(shop: Shop, tmp_path: Path) -> None:
    """Before anybody is asked."""
    empty = tmp_path / "empty.json"
    empty.write_text("{}")
    words = ["ask", "deploy", "version=7.6", "--channel", "C0SUPPORT"]
    for path in (empty, tmp_path / "missing.json"):
        with pytest.raises(SystemExit) as left:
            main([*words, "--verify", str(path)])
        assert left.value.code == 3
    assert not shop.cards("7.6")
