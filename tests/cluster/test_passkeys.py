"""Two replicas share passkeys: a link of one can be signed at the other, and a vote counts once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from bot.approvals.signatures import compute_challenge, hash_token
from slack_sandbox.workspace.people import TEAM
from storage import passkeys
from storage.models import Run, Vote
from storage.passkeys import Passkey, VoteSignature
from storage.states import RunStatus
from tests.authenticator import Authenticator
from tests.cluster.cluster import Cluster
from tests.cluster.replica import Replica
from tests.record_checks import find_first_broken_row
from tests.stories.enrolling import make_credential
from tests.stories.messages import action_ids, elements
from tests.stories.over_http import free_port
from tests.web.signing import fetch, post

pytestmark = [pytest.mark.long, pytest.mark.cluster]
SITE = "https://approve.example.com"
POLICY = '[defaults]\napprovers = ["@crew"]\nsignature = "passkey"\n'
ANA = "p0"  # one of the crew


def start_signing_replica(cluster: Cluster) -> Replica:
    """Start a replica that serves the pages at a port; a proxy before both has the address."""
    cluster.policy.write_text(POLICY)
    return cluster.start_replica(COUNTERSIGN_HTTP=f"127.0.0.1:{free_port()}", COUNTERSIGN_URL=SITE)


def give_passkey(cluster: Cluster) -> Authenticator:
    """Give Ana a passkey that counts."""
    key, at = Authenticator(), datetime.now(UTC)
    row = Passkey(
        team=TEAM,
        person=cluster.slack.person(ANA).id,
        credential_id=key.credential_id,
        public_key=key.public_key,
        rp_id=key.rp_id,
        created_at=at,
        counts_from=at,
    )
    with cluster.store.write() as tx:
        assert passkeys.add_passkey(tx, row)
    return key


def find_token(cluster: Cluster, path: str, channel: str = "") -> str:
    """The token of the newest link that Ana was sent, once it is there."""
    ana = cluster.slack.person(ANA)

    def look() -> list[str]:
        shown = sorted(ana.everything(channel or ana.dm_channel), key=lambda each: each["ts"])
        found = [str(each.get("url", "")) for message in shown for each in elements(message)]
        return [each for each in found if each.startswith(f"{SITE}/{path}/")]

    return str(cluster.wait(look)[-1].rpartition("/")[2])


def ask_to_sign(cluster: Cluster, word: str) -> str:
    """Ben asks, Ana presses Approve; return the token of her link."""
    cluster.ask(word)
    cluster.approve(word)
    return find_token(cluster, "sign", cluster.threads[word][0])


def find_challenge(cluster: Cluster, token: str) -> bytes:
    """The challenge to be signed for the link."""
    with cluster.store.read() as tx:
        link = passkeys.find_signing_link(tx, hash_token(token))
    assert link is not None
    return compute_challenge(link)


def post_to(replica: Replica, path: str, token: str, credential: Any) -> int:
    """Post to this replica, as the page does behind the proxy; return the status."""
    url = f"http://{replica.environ['COUNTERSIGN_HTTP']}/{path}/{token}"
    return post(url, credential, Origin=SITE)[0]


def is_shown(replica: Replica, path: str, token: str, part: str) -> bool:
    """Whether this replica's page has that text about what was posted."""
    url = f"http://{replica.environ['COUNTERSIGN_HTTP']}/{path}/{token}/outcome"
    return part in fetch(url)[1]


def check_votes(cluster: Cluster) -> None:
    """Check that each request has one vote and one signature, and everything else."""
    cluster.check_all()
    votes, signed = cluster.all(Vote), cluster.all(VoteSignature)
    assert len(votes) == len(signed) == len(cluster.threads)
    assert {each.call_id for each in votes} == {each.call_id for each in signed}


def test_a_passkey_is_added_and_used_at_another_replica(cluster: Cluster) -> None:
    """Links of the first replica are used at the second, after the first has gone."""
    one, ana, key = start_signing_replica(cluster), cluster.slack.person(ANA), Authenticator()
    ana.open_home()
    for button in ("home_passkeys", "add_passkey"):
        cluster.wait(lambda each=button: each in str(ana.home()))
        ana.click_home(button)
    token = find_token(cluster, "passkeys")
    one.kill()
    two = start_signing_replica(cluster)
    made = make_credential(key, find_challenge(cluster, token), name="Ana’s phone")
    assert post_to(two, "passkeys", token, made) == 202
    cluster.wait(lambda: is_shown(two, "passkeys", token, "Others approve it first"))
    other = cluster.slack.person("p1")

    def asked() -> list[dict[str, Any]]:
        seen = other.everything(other.dm_channel)
        return [each for each in seen if "approve" in action_ids(each)]

    [card] = cluster.wait(asked)
    cluster.begin(one)
    other.click(other.dm_channel, card["ts"], "approve", seen=card)
    cluster.wait(lambda: [each for each in cluster.all(Passkey) if each.counts_from])
    two.kill()
    token = ask_to_sign(cluster, "w1")
    cluster.begin(two)
    signed = key.sign(find_challenge(cluster, token))
    assert post_to(two, "sign", token, signed) == 202
    for each in (one, two):
        cluster.wait(lambda each=each: is_shown(each, "sign", token, "Signed."))
    cluster.wait(lambda: cluster.is_answered("w1"))
    cluster.wait(lambda: {each.status for each in cluster.all(Run)} == {RunStatus.COMPLETED})
    assert len(cluster.all(VoteSignature)) == 1
    with cluster.store.read() as tx:
        assert find_first_broken_row(tx) is None


def test_a_killed_replicas_signature_is_decided_by_another(cluster: Cluster) -> None:
    """The signature is stored, so nobody signs again."""
    one, key = start_signing_replica(cluster), give_passkey(cluster)
    token = ask_to_sign(cluster, "w1")
    one.kill()  # so that Ana has to be looked up for the decision
    cluster.begin(one)
    two = start_signing_replica(cluster)
    held = cluster.slack.faults.hold("users.info", when="before")
    signed = key.sign(find_challenge(cluster, token))
    assert post_to(one, "sign", token, signed) == 202
    assert held.arrived.wait(30)
    one.kill()
    assert (cluster.all(Vote), cluster.all(VoteSignature)) == ([], [])
    held.release()
    cluster.wait(lambda: is_shown(two, "sign", token, "Signed."), 30)
    check_votes(cluster)


def test_a_signature_sent_to_both_replicas_is_one_vote(cluster: Cluster) -> None:
    """The same signature at both replicas, ten times."""
    both, key = (
        [start_signing_replica(cluster), start_signing_replica(cluster)],
        give_passkey(cluster),
    )
    with ThreadPoolExecutor(2) as pool:
        for number in range(10):
            token = ask_to_sign(cluster, f"w{number}")
            signed = key.sign(find_challenge(cluster, token))
            sent = [pool.submit(post_to, each, "sign", token, signed) for each in both]
            assert {each.result() for each in sent} <= {200, 202}
            cluster.wait(lambda token=token: is_shown(both[0], "sign", token, "Signed."))
            assert is_shown(both[1], "sign", token, "Signed.")
    check_votes(cluster)
