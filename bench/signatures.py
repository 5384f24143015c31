"""What a signature costs, and a receipt: in processor time, without Slack.

The same stories are told in turns, under policies that differ in one line: nothing has to be
signed, something else has to, this has to.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from contextlib import ExitStack

from sqlalchemy import select
from sqlmodel import col

from bench.fakes import APPROVER, TEAM
from bench.figures import Figure, Setup, Stopwatch, Took, of_rounds
from bench.offline import POLICY, Bench
from bench.payloads import approval, mention
from bench.resume import check, full, pending
from bot.approvals.receipts import ReceiptWriter
from bot.approvals.signatures import build_page_delivery, compute_challenge, parse_credential
from storage import passkeys
from storage.models import Call
from storage.passkeys import Passkey, SigningLink
from storage.states import SigningLinkKind
from storage.transaction import fetch_rows
from tests.authenticator import Authenticator

URL = "https://approve.example.com"
ORDER = {"none": 1, "other": 1, "signed": 1042}  # of which order notes are signed; all are of 1042
RULE = '[[rule]]\ntool = ["note_asked"]\nwhen = "args.order_id == {}"\nverdict = "ask"\n'
SIGNED = 'signature = "passkey"\n'
SAME, SIGNATURE, RECEIPT = 1.05, 5, 1  # aims: at most so many times the same; ms


def measure(setup: Setup) -> Iterator[Figure]:
    """Each story right after the same one under the other policies."""
    count, rounds = (2, 1) if setup.quick else (40, 5)
    key = Authenticator()
    with ExitStack() as ends:
        benches = {}
        for name, order in ORDER.items():
            policy = POLICY + RULE.format(order) + (SIGNED if name != "none" else "")
            folder = setup.new(f"signatures-{name}")
            benches[name] = bench = Bench(folder, policy=policy, url=URL)
            ends.callback(bench.close)
            _give_passkey(bench, key)
        costs: dict[str, list[float]] = {name: [] for name in ORDER}
        _tell(benches, key, 1)  # fills caches
        for _ in range(rounds):
            for name, took in _tell(benches, key, count).items():
                costs[name].append(statistics.median(took))
        ratios = [b / a for a, b in zip(costs["none"], costs["other"], strict=True)]
        added = [b - a for a, b in zip(costs["none"], costs["signed"], strict=True)]
        words = "pause and resume, full, where no rule asks for signatures"
        yield of_rounds("signatures.none", words, costs["none"], "ms")
        words = "… where a rule asks for them, for other calls"
        yield of_rounds("signatures.other", words, ratios, "×", SAME)
        yield of_rounds("signatures.signed", "… what a signature adds", added, "ms", SIGNATURE)
        for name, words in (("none", "a receipt"), ("signed", "… of a signed vote")):
            taken = [_write_receipts(benches[name], count) for _ in range(rounds)]
            yield of_rounds(f"signatures.receipt.{name}", words, taken, "ms", RECEIPT)


def _give_passkey(bench: Bench, key: Authenticator) -> None:
    at = bench.clock.now()
    row = Passkey(
        team=TEAM,
        person=APPROVER,
        credential_id=key.credential_id,
        public_key=key.public_key,
        rp_id=key.rp_id,
        created_at=at,
        counts_from=at,
    )
    with bench.store.write() as tx:
        passkeys.add_passkey(tx, row)


def _tell(benches: dict[str, Bench], key: Authenticator, count: int) -> dict[str, list[float]]:
    """So many stories with each; the processor time of each, in milliseconds."""
    took: dict[str, list[float]] = {name: [] for name in benches}
    for _ in range(count):
        for name, bench in benches.items():
            with bench.store.read() as tx:
                number = len(fetch_rows(tx, Call, select(Call)))
            thread = f"1700000000.{number:06}"
            story = _sign(bench, thread, key) if name == "signed" else full(bench, thread)
            took[name].append(story.processor)
    return took


def _sign(bench: Bench, thread: str, key: Authenticator) -> Took:
    """The same story, whose click gets a link by which the approver signs."""
    watch, message = Stopwatch(), mention(thread)
    with watch:
        bench.store_delivery(message)
        bench.add_messages_to_transcript()
        run_id = bench.advance_ready()
    call = pending(bench, run_id)
    click = approval(call)
    with watch:
        bench.store_delivery(click)
        bench.add_messages_to_transcript()
    with bench.store.read() as tx:
        wanted = select(SigningLink).where(col(SigningLink.call_id) == call.id)
        [link] = fetch_rows(tx, SigningLink, wanted)
    said = json.dumps(key.sign(compute_challenge(link))).encode()
    with watch:
        credential = parse_credential(SigningLinkKind.SIGN, said)
        assert credential is not None
        bench.keep(build_page_delivery(link, credential))
        bench.add_messages_to_transcript()
        bench.advance_ready()
        bench.store.sync_commits()
    check(bench, run_id)
    return watch.took


def _write_receipts(bench: Bench, count: int) -> float:
    """The processor time of a receipt, in milliseconds, over so many."""
    writer, watch = ReceiptWriter(bench.core.key, bench.core.tools), Stopwatch()
    with bench.store.read() as tx:
        newest = select(Call).order_by(col(Call.created_at).desc()).limit(count)
        found = fetch_rows(tx, Call, newest)
        writer.write_receipts(tx, found[0])  # loads what it needs
        with watch:
            for each in found:
                writer.write_receipts(tx, each)
    return watch.took.processor / len(found)
