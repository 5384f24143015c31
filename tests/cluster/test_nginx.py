"""Two processes behind a real nginx configured as docs/http.md says."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster, measure_seconds
from tests.cluster.hosts import hosts_in
from tests.pages import blocks
from tests.postgres_server import binaries
from tests.stories.over_http import PAGE, asked_at, free_port

NGINX = shutil.which("nginx", path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin:/sbin:/bin")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed: its recipe is not tried out"),
]
SLACK_TIMEOUT = 3.0  # seconds until Slack gives up
CONFIG = """
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
    """The page's configuration for these addresses, without a certificate."""
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
def run_nginx(folder: Path, port: int, replicas: Sequence[str]) -> Iterator[str]:
    """Run nginx before these replicas until the block ends; yield its URL."""
    assert NGINX is not None
    folder.mkdir()
    folder.chmod(0o755)
    config = folder / "nginx.conf"
    config.write_text(CONFIG.format(folder=folder, recipe=recipe(port, replicas)))
    running = subprocess.Popen([NGINX, "-p", str(folder), "-e", "stderr", "-c", str(config)])
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait(10)


def freeze_outside_a_transaction(cluster: Cluster) -> None:
    """Freeze the first replica while it holds no lock in the database.

    Locks of a transaction would make the other one wait ten seconds, whatever is before them.
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


@pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")
def test_a_broken_workspace_does_not_hold_up_another(tmp_path: Path) -> None:
    """Its events are refused and sent again; another workspace does not wait for that."""
    with hosts_in(tmp_path, 2) as hosts:
        broken, well = hosts.teams
        settings = tmp_path / "workspaces" / broken / "settings.env"
        settings.parent.mkdir(parents=True)
        settings.write_text("COUNTERSIGN_MAX_TURNS=none of these", "utf-8")
        front, *ports = (free_port() for _ in range(3))
        with run_nginx(tmp_path / "nginx", front, [f"127.0.0.1:{each}" for each in ports]) as url:
            hosts.send_to(url.removeprefix("http://"))
            for each in ports:
                hosts.start_process(each)
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
            hosts.check_all()


def test_no_click_is_refused_while_a_replica_is_frozen(cluster: Cluster, tmp_path: Path) -> None:
    """Each is acknowledged in Slack's time."""
    *ports, front = (free_port() for _ in range(3))
    addresses = [f"127.0.0.1:{each}" for each in ports]
    with run_nginx(tmp_path / "nginx", front, addresses) as url:
        asked_at(cluster.slack.world.app.manifest, url)
        secret = {"SLACK_SIGNING_SECRET": cluster.slack.world.app.signing_secret}
        for address in addresses:
            cluster.start_replica(COUNTERSIGN_HTTP=address, SLACK_APP_TOKEN="", **secret)
        words = [f"w{number}" for number in range(12)]
        cluster.ask(*words)
        for word in words:
            cluster.wait(lambda word=word: cluster.card(word))
        freeze_outside_a_transaction(cluster)
        refused = []
        for word in words:
            click = cluster.click(word)
            took = measure_seconds(lambda click=click: click.settled.wait(15))
            if not click.ok or took >= SLACK_TIMEOUT:
                refused.append((word, took))
        cluster.replicas[0].thaw()
        assert refused == [], (tmp_path / "nginx" / "error.log").read_text()
        cluster.check_all()
