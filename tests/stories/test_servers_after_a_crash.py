"""The bot is killed while an MCP server's question waits for an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.demo.model_server import Turn
from bot.mcp.server_connection import fetch_tool_definitions
from bot.mcp.server_file import write_accepted_tools
from storage.models import Call
from storage.states import CallStatus
from tests.local_slack import build_local_slack
from tests.model_stand_in.planner import StrictPlanner
from tests.servers.support import over_http
from tests.stories.harness import SUPPORT
from tests.stories.messages import words
from tests.stories.process import BotProcess
from tests.stories.test_crash import card, having


@pytest.mark.long
def test_a_kill_withdraws_a_servers_question_and_leaves_the_call_unknown(tmp_path: Path) -> None:
    """The question's message says that it is no longer needed. The call is not made again, since
    the server may have done anything by then.
    """
    with over_http(tmp_path) as server, build_local_slack() as slack, StrictPlanner() as planner:
        (tmp_path / "servers.toml").write_text(
            f'[[server]]\nname = "depot"\nurl = "{server.url}"\n'
        )
        write_accepted_tools(
            tmp_path / "servers.lock.json", {"depot": fetch_tool_definitions(server)}
        )
        bot = BotProcess(
            tmp_path, slack, planner, COUNTERSIGN_SERVERS=str(tmp_path / "servers.toml")
        )
        bot.start()
        planner.script(Turn(calls=[("depot_put", {"item": "a lamp"})]))
        thread = slack.person("ben").say(SUPPORT, "@bot put it away")
        slack.person("ana").click(SUPPORT, card(bot, thread)["ts"], "approve")
        asked = card(bot, thread, "answer")
        bot.kill()
        bot.start()
        slack.wait(
            lambda: having(
                bot, thread, lambda m: m["ts"] == asked["ts"] and "No longer needed" in words(m)
            ),
            20,
        )
        card(bot, thread, "resolve_done")
        statuses = {each.tool: each.status for each in bot.rows(Call) if isinstance(each, Call)}
        assert statuses == {"depot_put": CallStatus.UNKNOWN, "ask_person": CallStatus.CANCELLED}
        assert not (tmp_path / "put").exists()
        bot.kill()
