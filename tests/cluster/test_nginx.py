"""Two processes behind a real nginx that is set up as docs/http.md says."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster, seconds_of
from tests.cluster.hosts import hosts_in
from tests.pages import blocks
from tests.postgres_server import binaries
from tests.stories.over_http import PAGE, asked_at, free_port

NGINX = shutil.which("nginx", path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin:/sbin:/bin")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed: its recipe is not tried out"),
]
WAITS = 3.0  # seconds that Slack waits
AROUND = """
daemon off;
worker_processes 2;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {recipe}
}}
"""


def recipe(port: int, replicas: Sequence[str]) -> str:
    """What the page has for nginx, for these addresses and without a certificate."""
    (text,) = (each for each in blocks(PAGE, "text") if each.lstrip().startswith("upstream "))
    changes = {"443 ssl": f"127.0.0.1:{port}"}
    rest = " max_fails=2 fail_timeout=5s;"
    one, two = (f"    server {each}:8080{rest}\n" for each in ("10.0.0.11", "10.0.0.12"))
    changes |= {two: "", one: "".join(f"    server {each}{rest}\n" for each in replicas)}
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@contextmanager
def nginx(folder: Path, port: int, replicas: Sequence[str]) -> Iterator[str]:
    """An nginx before these replicas, which ends with the block; its URL."""
    assert NGINX is not None
    folder.mkdir()
    folder.chmod(0o755)
    config = folder / "nginx.conf"
    config.write_text(AROUND.format(folder=folder, recipe=recipe(port, replicas)))
    running = subprocess.Popen([NGINX, "-p", str(folder), "-e", "stderr", "-c", str(config)])
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait(10)


def freeze_outside_a_transaction(cluster: Cluster) -> None:
    """Freeze the first replica where it holds no lock of the database: those that are held amid a
    transaction keep the other one waiting for ten seconds, whatever stands before them.
    """

    def is_free() -> bool:
        cluster.replicas[0].freeze()
        with cluster.server.connect("cluster") as owner:
            asked = owner.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
            )
            if asked.fetchone() == (0,):
                return True
        cluster.replicas[0].thaw()
        return False

    cluster.wait(is_free, 30)


def list_free_ports(many: int) -> list[int]:
    """So many ports, each another."""
    ports: list[int] = []
    while len(ports) < many:
        ports += [each for each in [free_port()] if each not in ports]
    return ports


@pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")
def test_one_workspace_cannot_be_served(tmp_path: Path) -> None:
    """Its events are refused, and come again; nobody waits for that in another workspace."""
    with hosts_in(tmp_path, 2) as hosts:
        broken, well = hosts.teams
        settings = tmp_path / "workspaces" / broken / "settings.env"
        settings.parent.mkdir(parents=True)
        settings.write_text("COUNTERSIGN_MAX_TURNS=none of these", "utf-8")
        front, *ports = list_free_ports(3)
        with nginx(tmp_path / "nginx", front, [f"127.0.0.1:{each}" for each in ports]) as url:
            hosts.send_to(url.removeprefix("http://"))
            for each in ports:
                hosts.process(each)
            hosts.ask(broken, "w0", "w1", "w2", "w3")
            sent = [each for each in hosts.slack.deliveries if each.kind == "events_api"]
            hosts.wait(lambda: all(each.attempts == 2 and each.next_at for each in sent))
            hosts.ask(well, "w4")
            click = hosts.click("w4")
            assert click.settled.wait(15)
            assert click.ok
            settings.unlink()
            for each in hosts.processes:
                each.end()
                hosts.begin(each)
            hosts.slack.clock.advance(60)
            hosts.approve("w0", "w1", "w2", "w3")
            hosts.all_is_well()


def test_one_of_two_freezes(cluster: Cluster, tmp_path: Path) -> None:
    """No click is refused though one replica is frozen: each is acknowledged in Slack's time."""
    *ports, front = list_free_ports(3)
    addresses = [f"127.0.0.1:{each}" for each in ports]
    with nginx(tmp_path / "nginx", front, addresses) as url:
        asked_at(cluster.slack.world.app.manifest, url)
        secret = {"SLACK_SIGNING_SECRET": cluster.slack.world.app.signing_secret}
        for address in addresses:
            cluster.replica(COUNTERSIGN_HTTP=address, SLACK_APP_TOKEN="", **secret)
        words = [f"w{number}" for number in range(12)]
        cluster.ask(*words)
        for word in words:
            cluster.wait(lambda word=word: cluster.card(word))
        freeze_outside_a_transaction(cluster)
        refused = []
        for word in words:
            click = cluster.click(word)
            took = seconds_of(lambda click=click: click.settled.wait(15))
            if not click.ok or took >= WAITS:
                refused.append((word, took))
        cluster.replicas[0].thaw()
        assert refused == [], (tmp_path / "nginx" / "error.log").read_text()
        cluster.all_is_well()
