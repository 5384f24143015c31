"""How much of a model's context is used before anybody has written a word."""

from __future__ import annotations

import json
from pathlib import Path

from slack_sdk import WebClient

from bot.agent.prompt import INSTRUCTIONS
from bot.clock import SystemClock
from bot.runs.sub_agent_runs import build_function_schema
from bot.slack.directory import SlackDirectory
from bot.tools.database.child_tools import build_database_tools
from bot.tools.database.config import parse_databases
from bot.tools.person_question import ASK_PERSON
from bot.tools.shop_tools import build_order_tools
from bot.tools.slack_tools import build_slack_tools
from bot.tools.web_shop import Shop

CLIENT = WebClient("xoxb-never-used", base_url="http://127.0.0.1:9/")
DATABASES = '[[database]]\nname = "shop"\nabout = "Orders."\nurl = "sqlite:////never-made.db"\n'
# bytes, about four to a token
MAX_SIZES = {
    "instructions": 1_420,
    "the shop's": 3_800,
    "databases'": 1_830,
    "Slack's": 4_100,
    "questions": 2_110,
}


def test_instructions_and_tools_stay_short() -> None:
    """The limits are today's sizes. More words cost something in every turn: they need a reason."""
    families = {
        "the shop's": build_order_tools(Shop(Path("never-made.db"))),
        "databases'": build_database_tools(parse_databases(DATABASES, {}), None),
        "Slack's": build_slack_tools(CLIENT, SlackDirectory(CLIENT, SystemClock())),
        "questions": [ASK_PERSON],
    }
    sizes = {
        name: sum(len(json.dumps(build_function_schema(each))) for each in tools)
        for name, tools in families.items()
    }
    sizes["instructions"] = len(INSTRUCTIONS)
    assert {name: size for name, size in sizes.items() if size > MAX_SIZES[name]} == {}
