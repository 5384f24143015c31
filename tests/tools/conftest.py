"""A shop, a local Slack, and the tools over them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from slack_sdk import WebClient

from bot.slack.directory import SlackDirectory
from bot.tools.names import SlackIdResolver
from bot.tools.shop_tools import build_order_tools
from bot.tools.slack_tools import build_slack_tools
from bot.tools.web_shop import Shop
from slack_sandbox.server import Sandbox
from tests.local_slack import build_local_slack
from tests.tools import NAMING, Tools


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path / "data" / "shop.db")
    shop.create_database()
    return shop


@pytest.fixture
def orders(shop: Shop) -> Tools:
    return {tool.name: tool for tool in build_order_tools(shop)}


@pytest.fixture
def slack() -> Iterator[Sandbox]:
    with build_local_slack() as sandbox:
        yield sandbox


@pytest.fixture
def chat(slack: Sandbox) -> Tools:
    client = WebClient(slack.bot_token, base_url=slack.api_url, timeout=10, retry_handlers=[])
    directory = SlackDirectory(client, slack.clock)
    NAMING.set(SlackIdResolver(directory, "UBEN00001"))
    return {tool.name: tool for tool in build_slack_tools(client, directory)}


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool
