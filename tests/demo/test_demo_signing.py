"""The demo shows signing: its software key signs a cancellation, which has a receipt."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlmodel import col, select

from bot.demo.demo import start_demo
from countersign.cli.commands import main
from storage.models import Vote
from storage.passkeys import Passkey
from storage.transaction import fetch_rows
from tests.model_stand_in.planner import StrictPlanner
from tests.stories.messages import action_ids, elements, value_of
from tests.web.signing import fetch, post


def test_a_cancellation_is_signed_and_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three clicks without an authenticator: approve, open, sign.

    The terminal verifies the receipt.
    """
    with ExitStack() as stack:
        demo = start_demo(stack, tmp_path, 0, {}, StrictPlanner)
        slack, cleo = demo.sandbox, demo.sandbox.person("cleo")
        slack.person("ben").say("C0SUPPORT", f"<@{slack.bot_user_id}> cancel order 1043")

        def find_card() -> dict[str, object] | None:
            found = [m for m in cleo.everything("C0FINANCE") if "approve" in action_ids(m)]
            return found[-1] if found else None

        card = slack.wait(find_card)
        cleo.click("C0FINANCE", card["ts"], "approve", value=value_of(card, "approve"), seen=card)

        def find_link() -> str:
            seen = [each for m in cleo.everything("C0FINANCE") for each in elements(m)]
            return next((e["url"] for e in seen if "/sign/" in str(e.get("url", ""))), "")

        url = str(slack.wait(find_link))
        _, page = fetch(url)
        assert "Sign with the demo’s software key" in page
        assert "Cancel order 1043" in page
        assert post(url, {"software": True, "name": ""}) == (202, {})
        slack.wait(lambda: "Signed." in fetch(f"{url}/outcome")[1])
        demo.app.wait_until_idle()
        with demo.app.core.store.read() as tx:
            [vote] = fetch_rows(tx, Vote, select(Vote).where(col(Vote.passkey_id) != ""))
    monkeypatch.chdir(tmp_path)
    for wanted, file in ((vote.call_id, "receipt.json"), ("--keys", "keys")):
        assert main(["receipt", wanted]) == 0
        Path(file).write_text(capsys.readouterr().out)
    assert main(["audit", "export", "--format", "receipts"]) == 0
    Path("all.jsonl").write_text(capsys.readouterr().out)
    assert main(["verify", "all.jsonl", "--key", "keys", "--record"]) == 0
    assert "Approved by UCLEO0001 (signed with a passkey)" in capsys.readouterr().out
    line = ["verify", "receipt.json", "--key", "keys", "--tool", "cancel_order", "--passkeys"]
    assert main([*line, "--approvers", "1"]) == 0
    assert "UCLEO0001" in capsys.readouterr().out


def test_a_passkey_is_added_without_an_authenticator(tmp_path: Path) -> None:
    """From Home; in the demo it counts at once."""
    with ExitStack() as stack:
        demo = start_demo(stack, tmp_path, 0, {}, StrictPlanner)
        slack, cleo = demo.sandbox, demo.sandbox.person("cleo")
        cleo.open_home()
        for button in ("home_passkeys", "add_passkey"):
            slack.wait(lambda each=button: each in str(cleo.home()))
            cleo.click_home(button)

        def find_link() -> str:
            seen = [each for m in cleo.everything(cleo.dm_channel) for each in elements(m)]
            return next((e["url"] for e in seen if "/passkeys/" in str(e.get("url", ""))), "")

        url = str(slack.wait(find_link))
        assert post(url, {"software": True, "name": "Blue"}) == (202, {})
        demo.app.wait_until_idle()
        with demo.app.core.store.read() as tx:
            [added] = fetch_rows(tx, Passkey, select(Passkey).where(col(Passkey.name) == "Blue"))
        assert added.person == "UCLEO0001"
        assert added.counts_from is not None
        slack.wait(lambda: "Blue" in str(cleo.home()))
