"""One headless Chromium for all browser tests, a fresh sandbox for each.

Skipped where Chromium is not installed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from slack_sandbox.server import Sandbox
from slack_sandbox.setup.manifests import full_manifest

from .gallery import Gallery
from .page import Page
from .recording_app import RecordingApp
from .workspace import Workspace

ROOM = 1_000_000_000  # free bytes that a browser profile needs in /dev/shm
CHROMEDRIVER = Path("/usr/bin/chromedriver")
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-software-rasterizer",
    "--force-prefers-reduced-motion",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-breakpad",
    "--disable-features=IsolateOrigins,site-per-process,SpareRendererForSitePerProcess",
    "--disable-site-isolation-trials",
    "--disable-dev-shm-usage",
    "--no-proxy-server",
    "--lang=en-GB",
    "--window-size=1280,900",
]


@pytest.fixture(scope="session")
def driver() -> Iterator[webdriver.Chrome]:
    """A browser with an empty profile; skips the test where chromium or chromedriver is missing."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None or not CHROMEDRIVER.exists():
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # a profile is many small writes; in a container there may be next to no room
    shm = Path("/dev/shm")
    memory = shm if shm.is_dir() and shutil.disk_usage(shm).free > ROOM else None
    # it may still be written when it ends
    with TemporaryDirectory(dir=memory, ignore_cleanup_errors=True) as profile:
        for flag in [*FLAGS, f"--user-data-dir={profile}"]:
            options.add_argument(flag)
        browser = webdriver.Chrome(options=options, service=Service(str(CHROMEDRIVER)))
        browser.set_page_load_timeout(20)
        yield browser
        browser.quit()


@pytest.fixture
def page(driver: webdriver.Chrome) -> Iterator[Page]:
    """The page helper at 1280 × 900.

    Leaves an empty tab, so that no sandbox is listened to after its test.
    """
    page = Page(driver)
    page.size(1280, 900)
    page.complaints()
    yield page
    driver.get("about:blank")


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A local Slack of its own, with nothing posted yet; its app has every scope."""
    with Sandbox(full_manifest()) as running:
        yield running


@pytest.fixture
def app(sandbox: Sandbox) -> Iterator[RecordingApp]:
    """An app connected to that sandbox."""
    app = RecordingApp(sandbox)
    app.start()
    yield app
    app.stop()


@pytest.fixture(scope="module")
def gallery(driver: webdriver.Chrome) -> Iterator[Gallery]:
    """A sandbox, an app and a page that a module's tests share, at 1280 × 900."""
    manifest = full_manifest()
    manifest["features"] |= {
        "unfurl_domains": ["shop.example"],
        "user_connections": {"auth_hosts": ["shop.example"]},
    }
    manifest["features"] |= {"app_home": {"home_tab_enabled": True, "messages_tab_enabled": True}}
    manifest["oauth_config"]["scopes"]["bot"] += ["links.embed:write", "files:read"]
    with Sandbox(manifest) as running:
        app = RecordingApp(running)
        app.start()
        page = Page(driver)
        page.complaints()
        yield Gallery(running, app, page)
        driver.get("about:blank")
        app.stop()


@pytest.fixture(scope="module")
def workspace() -> Iterator[Workspace]:
    """A workspace that a module's tests share; each says things of its own."""
    workspace = Workspace()
    yield workspace
    workspace.close()


@pytest.fixture
def at(page: Page, workspace: Workspace) -> Page:
    """Ben, in #support of that workspace."""
    return page.open(workspace.sandbox.url)
