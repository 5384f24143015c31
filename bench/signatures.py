"""Measures the cost of a signature and of a receipt, in processor time, without Slack.

The same stories run in turns under policies that differ in one line: no rule asks for signatures, a
rule asks for them for other calls, a rule asks for them for these.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from contextlib import ExitStack

from sqlalchemy import select
from sqlmodel import col

from bench.fakes import APPROVER, TEAM
from bench.figures import Figure, Setup, Stopwatch, Took, build_figure
from bench.offline import POLICY, Bench
from bench.payloads import build_approval, build_mention
from bench.resume import check_completed, find_waiting_call, run_full
from bot.approvals.receipts import ReceiptWriter
from bot.approvals.signatures import build_page_delivery, compute_challenge, parse_credential
from storage import passkeys
from storage.models import Call
from storage.passkeys import Passkey, SigningLink
from storage.states import SigningLinkKind
from storage.transaction import fetch_rows
from tests.authenticator import Authenticator

URL = "https://approve.example.com"
# The order whose notes are signed; all notes are of 1042.
ORDER = {"none": 1, "other": 1, "signed": 1042}
RULE = '[[rule]]\ntool = ["note_asked"]\nwhen = "args.order_id == {}"\nverdict = "ask"\n'
SIGNED = 'signature = "passkey"\n'
SAME, SIGNATURE, RECEIPT = 1.05, 5, 1  # aims: ratio; ms; ms


def measure(setup: Setup) -> Iterator[Figure]:
    """Measure each story right after the same one under the other policies."""
    count, rounds = (2, 1) if setup.quick else (40, 5)
    key = Authenticator()
    with ExitStack() as ends:
        benches = {}
        for name, order in ORDER.items():
            policy = POLICY + RULE.format(order) + (SIGNED if name != "none" else "")
            folder = setup.make_folder(f"signatures-{name}")
            benches[name] = bench = Bench(folder, policy=policy, url=URL)
            ends.callback(bench.close)
            _give_passkey(bench, key)
        costs: dict[str, list[float]] = {name: [] for name in ORDER}
        _measure_stories(benches, key, 1)  # warms the caches
        for _ in range(rounds):
            for name, took in _measure_stories(benches, key, count).items():
                costs[name].append(statistics.median(took))
        ratios = [b / a for a, b in zip(costs["none"], costs["other"], strict=True)]
        added = [b - a for a, b in zip(costs["none"], costs["signed"], strict=True)]
        words = "pause and resume, full, where no rule asks for signatures"
        yield build_figure("signatures.none", words, costs["none"], "ms")
        words = "… where a rule asks for them, for other calls"
        yield build_figure("signatures.other", words, ratios, "×", SAME)
        yield build_figure("signatures.signed", "… what a signature adds", added, "ms", SIGNATURE)
        for name, words in (("none", "a receipt"), ("signed", "… of a signed vote")):
            taken = [_measure_receipts(benches[name], count) for _ in range(rounds)]
            yield build_figure(f"signatures.receipt.{name}", words, taken, "ms", RECEIPT)


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


def _measure_stories(
    benches: dict[str, Bench], key: Authenticator, count: int
) -> dict[str, list[float]]:
    """Run so many stories with each policy; return the processor milliseconds of each."""
    took: dict[str, list[float]] = {name: [] for name in benches}
    for _ in range(count):
        for name, bench in benches.items():
            with bench.store.read() as tx:
                number = len(fetch_rows(tx, Call, select(Call)))
            thread = f"1700000000.{number:06}"
            story = (
                _run_signed_story(bench, thread, key)
                if name == "signed"
                else run_full(bench, thread)
            )
            took[name].append(story.processor)
    return took


def _run_signed_story(bench: Bench, thread: str, key: Authenticator) -> Took:
    """Run the same story; its click gets a link, by which the approver signs."""
    watch, message = Stopwatch(), build_mention(thread)
    with watch:
        bench.store_delivery(message)
        bench.add_messages_to_transcript()
        run_id = bench.advance_ready()
    call = find_waiting_call(bench, run_id)
    click = build_approval(call)
    with watch:
        bench.store_delivery(click)
        bench.add_messages_to_transcript()
    with bench.store.read() as tx:
        wanted = select(SigningLink).where(col(SigningLink.call_id) == call.id)
        [link] = fetch_rows(tx, SigningLink, wanted)
    said = json.dumps(key.sign(compute_challenge(link))).encode()
    with watch:
        credential = parse_credential(SigningLinkKind.SIGN, json.loads(said))
        assert credential is not None
        bench.insert_delivery(build_page_delivery(link, credential))
        bench.add_messages_to_transcript()
        bench.advance_ready()
        bench.store.sync_commits()
    check_completed(bench, run_id)
    return watch.took


def _measure_receipts(bench: Bench, count: int) -> float:
    """Return the processor milliseconds of a receipt, over so many."""
    writer, watch = ReceiptWriter(bench.core.key, bench.core.tools), Stopwatch()
    with bench.store.read() as tx:
        newest = select(Call).order_by(col(Call.created_at).desc()).limit(count)
        found = fetch_rows(tx, Call, newest)
        writer.write_receipts(tx, found[0])  # warms the caches
        with watch:
            for each in found:
                writer.write_receipts(tx, each)
    return watch.took.processor / len(found)
