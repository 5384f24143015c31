"""A bot's pages to install from, on a real server beside a local Slack, and browsers."""

from __future__ import annotations

import copy
import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import yaml
from pydantic import SecretStr
from starlette.applications import Starlette

from bot.config.connection_settings import ListeningAddress, parse_page_address
from bot.http.server import WebServer
from bot.workspaces.install_pages import INSTALL_PATH, InstallPages
from bot.workspaces.oauth_client import OAuthClient, TokenRotation
from bot.workspaces.tokens import TokenCipher, Tokens
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.clock import ShiftedClock
from storage.installations import Installation, InstallationRecord
from tests.local_slack import read_countersign_manifest
from tests.pages import ROOT, blocks

KEYS = SecretStr("one:" + "k" * 32)


def build_manifest(url: str) -> dict[str, Any]:
    """Build the app manifest with the additions of docs/workspaces.md for a bot at that URL."""
    [added] = blocks(ROOT / "docs" / "workspaces.md", "yaml")
    manifest: dict[str, Any] = copy.deepcopy(read_countersign_manifest())
    _add(manifest, yaml.safe_load(added.replace("https://approve.example.com", url)))
    return manifest


def _add(manifest: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict):
            _add(manifest[name], value)
        elif isinstance(value, list):
            manifest[name] = [*manifest.get(name, []), *value]
        else:
            manifest[name] = value


class Site:
    """The part of an installation of the bot that people install from."""

    def __init__(
        self, folder: Path, *, rotates: bool = False, secret: str = "", **slack: Any
    ) -> None:
        """`secret`: a client secret that is not the app's; `slack`: options of the sandbox."""
        self.clock = ShiftedClock()
        self.server = WebServer.create_listening_server(ListeningAddress("127.0.0.1", 0))
        self.url = f"http://localhost:{urlsplit(self.server.url).port}"
        manifest = build_manifest(self.url)
        manifest["settings"]["token_rotation_enabled"] = rotates
        self.slack = Sandbox(manifest, self.clock, shares_clock=True, **slack)
        self.slack.start()
        app = self.slack.world.app
        self.record = InstallationRecord(f"sqlite:///{folder / 'installations.db'}").open()
        self.cipher = TokenCipher.parse(KEYS)
        given = SecretStr(secret or app.client_secret)
        self.oauth = OAuthClient(app.client_id, given, self.slack.api_url)
        self.told: list[Installation] = []
        address = parse_page_address(self.url)
        parts = (self.record, self.cipher, self.oauth, self.clock)
        self.pages = InstallPages(*parts, address, self.told.append)
        self.rotation = TokenRotation(*parts, self.told.append)
        self.server.start(Starlette(routes=self.pages.list_routes()))

    def close(self) -> None:
        """End all of it."""
        self.server.close()
        self.slack.stop()
        self.record.close()

    def tokens(self) -> Tokens:
        """Decrypt the tokens of the only installation."""
        [row] = self.record.list()
        return self.cipher.open(row)

    def install(self) -> Installation:
        """Have Ana install the bot from a browser of her own; returns the row."""
        with Browser(self) as ana:
            page = ana.open(ana.allow(ana.leave()))
            assert page.status_code == 200, page.text
        [row] = self.record.list()
        return row


class Browser:
    """A person's browser, which keeps cookies and follows links only when told to."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.http = httpx2.Client(trust_env=False)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def open(self, url: str) -> httpx2.Response:
        """Open an address."""
        return self.http.get(url)

    def press(self, **headers: str) -> httpx2.Response:
        """Press the page's button; `headers` replace those that a browser sends."""
        sent = {"Origin": self.site.url, "Sec-Fetch-Site": "same-origin"} | headers
        return self.http.post(self.site.url + INSTALL_PATH, headers=sent)

    def leave(self) -> str:
        """Press the page's button; returns the address at Slack to which it leads."""
        page = self.press()
        assert page.status_code == 200, page.text
        url = page.headers["refresh"].removeprefix("0;url=")
        assert unescape(re.findall(r'<a class="button" href="([^"]*)"', page.text)[0]) == url
        return url

    def allow(self, url: str, decision: str = "allow", **more: Any) -> str:
        """Decide as Ana on Slack's page; returns the address to which Slack sends her back."""
        back = self.http.post(url, data={"as": "ana", "decision": decision, **more})
        assert back.status_code == 302, back.text
        return str(back.headers["location"])


def parse_query(url: str) -> dict[str, Any]:
    """Parse the query of an address; each name has one value."""
    return {name: value[0] for name, value in parse_qs(urlsplit(url).query).items()}


def read_title(page: httpx2.Response) -> str:
    """Read the heading of a page, which is all that most pages say."""
    found = re.search(r"<h1>(.*?)</h1>", page.text)
    assert found, page.text
    return unescape(found[1])
