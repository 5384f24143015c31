"""`countersign doctor --live @me`: what the bot asks of Slack, tried once in a real workspace.

It works while the bot does not run. Everything it makes it takes away again, also where a step
failed or Ctrl-C cut it short. The report says methods, codes and times, and nothing of anybody.
"""

from __future__ import annotations

import platform
import re
import secrets
from collections.abc import MutableMapping
from pathlib import Path

import slack_sdk.version
from slack_sdk import WebClient

from bot import version
from bot.cli.live.click import ClickListener, connect, one_click
from bot.cli.live.interrupts import interruptible
from bot.cli.live.live_steps import LiveStep, LiveSteps, report
from bot.cli.live.visit import NotingClient, Visit
from bot.clock import SystemClock
from bot.config.environment import prepare_environment, split
from bot.config.settings import Settings
from bot.policy.directory import LookupFailedError
from bot.slack.apps import app_of
from bot.slack.lookups.directory import SlackDirectory
from countersign.cli.console import complain, say

MISUSED = 2  # exit code
PATIENCE = 15  # seconds for one call
BESIDE = (
    "Another process is connected with this app: the bot itself? Slack gives each delivery to one"
    " of the two, so your click may go there, and people's clicks may fail while this is tried."
)
ME = "@me"  # whoever COUNTERSIGN_OPERATOR names
_PERSON = re.compile(r"@\S+|[UW][A-Z0-9]{5,}")


def live(environ: MutableMapping[str, str], dotenv_path: Path, who: str) -> int:
    """Try everything in the direct messages of `who` (@name or an id), print the report; returns
    the exit code: 0 where every step went well, 1 where one did not, 2 where nothing was tried.
    """
    # on the first day there may be no policy, and none is read: any file stands for one
    settings = Settings.load(
        {**environ, "COUNTERSIGN_POLICY": __file__}, dotenv_path, reading=True, transport=None
    )
    token = settings.slack_bot_token.get_secret_value()
    if not token:
        return _misused("SLACK_BOT_TOKEN is not set: there is no workspace to try.")
    prepare_environment(environ, settings.slack_api_url)
    client = NotingClient(
        token, base_url=settings.slack_api_url, timeout=PATIENCE, retry_handlers=[]
    )
    steps = LiveSteps(_tell)
    me = steps.take("ask who the bot is", "auth.test", client.auth_test)
    if me is None:
        say(report(steps.all, _facts(settings, False, 0), cut_short=False))
        return 1
    try:
        user = _user(client, who, settings.operator)
    except LookupFailedError as error:
        return _misused(str(error))
    key = f"live-{secrets.token_hex(8)}"
    visit = Visit(client, steps, user, str(me.get("team_id") or ""), key)
    return _tried(visit, settings, str(me.get("bot_id") or ""))


def _tried(visit: Visit, settings: Settings, bot: str) -> int:
    """Try everything and clear it away, whatever comes; returns the exit code."""
    steps, cut_short = visit.steps, False
    token = settings.slack_app_token.get_secret_value()
    opened = connect(visit.client, steps, token, visit.key) if token else None
    line, hello = opened or (None, None)
    others = hello.connections - 1 if hello else 0
    if others > 0:
        complain(BESIDE)
    facts = _facts(settings, hello is not None, others)
    own_app = app_of(visit.client, bot)
    if hello and hello.app and own_app and hello.app != own_app:
        steps.add(
            LiveStep("compare the apps of both tokens", "bots.info", "tokens of two apps", 0.0)
        )
    why = "not connected" if token else "SLACK_APP_TOKEN is not set"
    with interruptible() as signals:
        try:
            _take_steps(visit, line, why)
        except KeyboardInterrupt:
            cut_short = True
        finally:
            signals.is_open = False
            visit.clear_away()
            if line is not None:
                line.close()
    say(report(steps.all, facts, cut_short))
    if cut_short:
        raise KeyboardInterrupt
    return 0 if all(each.is_ok for each in steps.all) else 1


def _take_steps(visit: Visit, line: ClickListener | None, why: str) -> None:
    visit.post_and_find()
    if visit.channel:
        visit.show_work()
        visit.upload()
    visit.publish_home()
    one_click(visit, line, why, _ask)


def _facts(settings: Settings, connected: bool, others: int) -> list[str]:
    """What whoever reads the report has to know, and nothing of the workspace."""
    at = SystemClock().now().strftime("%Y-%m-%d %H:%M UTC")
    host = split(settings.slack_api_url).hostname or ""
    is_slack = host == "slack.com" or host.endswith(".slack.com")
    line = "connected by Socket Mode" if connected else "not connected by Socket Mode"
    if connected:
        line += f", beside {others} other connections of this app" if others else ", alone"
    return [
        f"Countersign {version.described()}, Python {platform.python_version()},"
        f" slack_sdk {slack_sdk.version.__version__}",
        f"{at}, at {'Slack itself' if is_slack else 'another address than that of Slack'}",
        line,
    ]


def _tell(tried: LiveStep) -> None:
    complain(f"{tried.step}: {tried.result}")


def _ask(words: str) -> None:
    complain(words)


def _misused(problem: str) -> int:
    complain(problem)
    return MISUSED


def _user(client: WebClient, who: str, operator: str | None) -> str:
    """Return the id of whom `who` names; raises LookupFailedError with a sentence."""
    if not _PERSON.fullmatch(who):
        raise LookupFailedError(f"--live takes @name or a user id such as U0123ABC, not {who!r}.")
    if not who.startswith("@"):
        return who
    directory = SlackDirectory(client, SystemClock())
    try:
        found = sorted(directory.named(who[1:]))
    except LookupFailedError as error:
        raise LookupFailedError(f"{who} cannot be looked up ({error}); give an id.") from None
    finally:
        directory.close()
    if not found and who == ME and operator:
        return operator
    if not found and who == ME:
        raise LookupFailedError(f"{ME} is whom COUNTERSIGN_OPERATOR names; set it, or give an id.")
    if len(found) != 1:
        raise LookupFailedError(f"{who} is {'several people' if found else 'nobody'}; give an id.")
    return found[0]
