"""Takes the pictures of installing the bot in two workspaces, through its page and Slack's."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from selenium.webdriver.common.keys import Keys

from bench.pictures.camera import MAIN, THREAD, Camera, open_browser
from bot.app import build
from bot.config.settings import Settings
from bot.demo.demo import DEMO_POLICY_PATH, MANIFEST_PATH
from bot.demo.model_server import StandInPlanner
from bot.tools.web_shop import Shop
from bot.workspaces.host import WorkspaceHost
from bot.workspaces.hosted import AppSource
from bot.workspaces.install_pages import INSTALL_PATH, REDIRECT_PATH
from slack_sandbox.ports import any_free
from slack_sandbox.server import Sandbox
from slack_sandbox.setup.manifests import read_manifest

FIRST, SECOND = "T0SANDBOX", "T0SANDBOXB"
SUPPORT = {FIRST: "C0SUPPORT", SECOND: "C0SUPPORTB"}
CARD = f"{THREAD} [data-testid=message]:has([data-action-id=approve])"
REQUEST = "@countersign refund 40 EUR of order 1042, it arrived broken"


@dataclass(frozen=True, slots=True)
class Places:
    """A local Slack with two workspaces, and the process that serves both."""

    sandbox: Sandbox
    host: WorkspaceHost
    url: str  # where people install the bot

    def invite(self, team: str) -> None:
        """Add the bot to #support of that workspace, where it is installed already."""
        world = self.sandbox.workspace(team).world
        with self.sandbox.world.lock:
            members = world.channel(SUPPORT[team]).members
            if world.app.bot_user not in members:
                members.append(world.app.bot_user)


@contextmanager
def two_workspaces(folder: Path) -> Iterator[Places]:
    """Run both, with the demo's policy, shop and planner; the bot is not installed yet."""
    port = any_free()  # the address is needed before the start
    url = f"http://localhost:{port}"
    manifest = copy.deepcopy(read_manifest(MANIFEST_PATH))
    manifest["oauth_config"]["redirect_urls"] = [url + REDIRECT_PATH]
    for team in SUPPORT:
        own = folder / "workspaces" / team
        own.mkdir(parents=True)
        (own / "settings.env").write_text("COUNTERSIGN_SHOP=shop.db\n", "utf-8")
        Shop(own / "shop.db").create_database()
    with ExitStack() as stack:
        planner = stack.enter_context(StandInPlanner())
        sandbox = stack.enter_context(Sandbox(manifest, workspaces=2))
        app = sandbox.world.app
        environ = {
            "SLACK_APP_TOKEN": sandbox.app_token,
            "SLACK_API_URL": sandbox.api_url,
            "OPENAI_BASE_URL": planner.url,
            "OPENAI_API_KEY": "offline",
            "COUNTERSIGN_CLIENT_ID": app.client_id,
            "COUNTERSIGN_CLIENT_SECRET": app.client_secret,
            "COUNTERSIGN_URL": url,
            "COUNTERSIGN_HTTP": f"127.0.0.1:{port}",
            "COUNTERSIGN_POLICY": str(DEMO_POLICY_PATH),
            "COUNTERSIGN_WORKSPACES": str(folder / "workspaces"),
        }
        host = WorkspaceHost(Settings.load(environ), sandbox.clock, AppSource(build, environ))
        stack.callback(host.stop)
        host.start()
        yield Places(sandbox, host, url)


def take_installing(theme: str) -> None:
    """Take the install page, and a card in the second workspace."""
    with (
        TemporaryDirectory() as folder,
        TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        two_workspaces(Path(folder)) as places,
        open_browser(profile) as driver,
    ):
        camera = Camera(driver, places.sandbox.url, theme)
        for team in (FIRST, SECOND):
            camera.visit(places.url + INSTALL_PATH)
            if team == FIRST:
                with camera.whole_page(470):
                    camera.save_picture("body", "install", "Continue to Slack")
            camera.press("footer button")
            camera.find(f"option[value='{team}/ana']").click()
            camera.press("button[value=allow]")
            camera.find("h1", "Countersign is now in")
            places.invite(team)
            camera.act_as("ben", SUPPORT[team], team)
            camera.write("[data-testid=composer]", REQUEST + Keys.ENTER)
            camera.find(f"{MAIN} [data-testid=open-thread]")
            camera.act_as("ana", SUPPORT[team], team)
            camera.press(f"{MAIN} [data-testid=open-thread]")
            camera.find(CARD)
            if team == SECOND:
                with camera.whole_page():
                    camera.save_picture("body", "workspaces", "Approve")
            camera.press(f"{CARD} [data-action-id=approve]")
            camera.find(THREAD, "Refunded 40.00 EUR")
