"""`countersign doctor --live @me`: what the bot asks of Slack, tried once in a real workspace.

The bot has to be stopped, or it may get the click. Everything that the check makes is removed
again, even if a step failed or Ctrl-C cut it short. The report has methods, codes and times, and
nothing about anybody.
"""

from __future__ import annotations

import platform
import re
import secrets
import signal
import time
from collections.abc import MutableMapping
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import slack_sdk.version
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from bot import version
from bot.checks.check import CheckResult, CheckSubject
from bot.checks.slack import SLACK_UNREACHABLE_ERRORS, describe_slack_failure
from bot.cli.doctor import live_workspace
from bot.clock import SystemClock
from bot.config.environment import remove_variables_slack_misreads, split_url
from bot.config.settings import Settings
from bot.policy.authority import LookupFailedError
from bot.slack.client import find_app_id
from bot.slack.directory import SlackDirectory
from bot.slack.socket import HELLO_TIMEOUT_SECONDS
from bot.slack.socket_client import EnvelopeAcknowledger, HelloMessage, ReconnectingSocketClient
from countersign.cli.console import print_error, print_line
from countersign.cli.process import handle_signals

WAIT_SECONDS = 120.0  # for the person to click
CLICK_REQUEST_TEXT = "Please click once, so that Countersign can measure how long a click takes."
CLICK_RECEIVED_TEXT = "Thank you: your click arrived."
DIALOG_CHANGED_TEXT = "Done; please close this window."
CONNECT_STEP = "connect by Socket Mode"
CLICK_STEP = "wait for a click"
_CONNECT_METHOD = "apps.connections.open"


class ClickListener:
    """A connection by Socket Mode that waits for one click."""

    def __init__(self, client: WebClient, token: str, key: str) -> None:
        """Prepare the connection; `key` is the id of the button and of the dialog behind it."""
        self._key = key
        self._hello: Queue[HelloMessage] = Queue()
        self.clicks: Queue[tuple[dict[str, Any], float, float]] = Queue()
        self._socket = ReconnectingSocketClient(
            token,
            client.logger,
            client,
            proxy=client.proxy,
            deal=self._handle_delivery,
            greeted=self._hello.put,
        )

    def open(self) -> HelloMessage:
        """Connect and return Slack's hello message; raises TimeoutError if none comes in time.

        Raises whatever keeps the connection from opening, too.
        """
        self._socket.connect()
        try:
            return self._hello.get(timeout=HELLO_TIMEOUT_SECONDS)
        except Empty:
            raise TimeoutError from None

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _handle_delivery(self, client: EnvelopeAcknowledger, request: SocketModeRequest) -> None:
        """Acknowledge deliveries about the check's button or dialog; keep a click, with times."""
        arrived = time.perf_counter()
        payload = request.payload or {}
        actions = payload.get("actions") or [{}]
        is_click = actions[0].get("action_id") == self._key
        if not is_click and (payload.get("view") or {}).get("callback_id") != self._key:
            return
        client.send_socket_mode_response(SocketModeResponse(request.envelope_id))
        if is_click:
            self.clicks.put((payload, arrived, time.perf_counter()))


def open_click_listener(
    client: WebClient, steps: live_workspace.LiveStepRunner, token: str, key: str
) -> tuple[ClickListener, HelloMessage] | None:
    """Open a connection that listens for clicks; None if that fails, which the report then says."""
    line = ClickListener(client, token, key)
    hello = steps.run_step(CONNECT_STEP, _CONNECT_METHOD, line.open)
    if hello is None:
        line.close()
        return None
    return line, hello


def run_button_click_step(
    visit: live_workspace.LiveTrial, line: ClickListener | None, why: str
) -> None:
    """Ask for a click and record its delay; without a connection, record `why` it is left out."""
    steps = visit.steps
    if line is None or not visit.channel:
        steps.record_skipped_step(
            CLICK_STEP, "block_actions", why if line is None else "no direct messages"
        )
        return
    message_ts = visit.post_message("post a button", CLICK_REQUEST_TEXT, _render_button(visit.key))
    if not message_ts:
        steps.record_skipped_step(CLICK_STEP, "block_actions", "no button")
        return
    print_error(
        f"Click the button in your direct messages with the bot, within {WAIT_SECONDS:.0f} seconds."
    )
    begun = time.perf_counter()
    try:
        payload, arrived, acknowledged = line.clicks.get(timeout=WAIT_SECONDS)
    except Empty:
        steps.record_step(
            CLICK_STEP, "block_actions", f"no click within {WAIT_SECONDS:.0f} s", WAIT_SECONDS
        )
        return
    steps.record_step(CLICK_STEP, "block_actions", live_workspace.OK, arrived - begun)
    steps.record_step(
        "acknowledge it (from its arrival)",
        "block_actions",
        live_workspace.OK,
        acknowledged - arrived,
    )
    _open_dialog(visit, str(payload.get("trigger_id") or ""))
    try:
        visit.client.chat_update(
            channel=visit.channel, ts=message_ts, text=CLICK_RECEIVED_TEXT, blocks=[]
        )
        result = live_workspace.OK
    except (SlackApiError, OSError) as error:
        result = live_workspace.describe_step_error(error)
    took = time.perf_counter() - arrived
    steps.record_step("show its effect (from its arrival)", "chat.update", result, took)


def _open_dialog(visit: live_workspace.LiveTrial, trigger: str) -> None:
    """Open a dialog, then change its text to say that it can be closed: no app can close one."""
    view = _render_dialog(visit.key, CLICK_RECEIVED_TEXT)
    opened = visit.call_method("open a dialog", "views.open", trigger_id=trigger, view=view)
    if opened:
        view_id, view = opened["view"]["id"], _render_dialog(visit.key, DIALOG_CHANGED_TEXT)
        visit.call_method("change the dialog", "views.update", view_id=view_id, view=view)


def _render_button(key: str) -> list[dict[str, Any]]:
    label = {"type": "plain_text", "text": "Click here"}
    button = {"type": "button", "action_id": key, "text": label, "value": key}
    words = {"type": "section", "text": {"type": "plain_text", "text": CLICK_REQUEST_TEXT}}
    return [words, {"type": "actions", "elements": [button]}]


def _render_dialog(key: str, words: str) -> dict[str, Any]:
    return {
        "type": "modal",
        "callback_id": key,
        "title": {"type": "plain_text", "text": "Countersign"},
        "close": {"type": "plain_text", "text": "Close"},
        "blocks": [{"type": "section", "text": {"type": "plain_text", "text": words}}],
    }


_APP_ID_IN_TOKEN_PATTERN = re.compile(r"xapp-\d+-(A[A-Z0-9]+)-")  # the app's id is in the token


def check_app_token(client: WebClient, settings: Settings, own_app: str) -> CheckResult:
    """Check that the app-level token opens Socket Mode and belongs to the bot's own app.

    `own_app`: the app's id, "" if it is unknown. If the token itself names that app, the connection
    is left unused: a bot that is running would miss what Slack delivers there.
    """
    about, token = CheckSubject("app token"), settings.slack_app_token.get_secret_value()
    try:
        client.apps_connections_open(app_token=token)
        named = _APP_ID_IN_TOKEN_PATTERN.match(token)
        is_own = not own_app or (named is not None and named[1] == own_app)
        app = own_app if is_own else look_up_token_app(client, token)
    except (SlackApiError, *SLACK_UNREACHABLE_ERRORS) as error:
        remedy = "Make an app-level token with connections:write, and turn Socket Mode on"
        return about.fail(describe_slack_failure(error), remedy)
    if own_app and app and app != own_app:
        text = f"it belongs to the app {app}, but the bot token to the app {own_app}"
        remedy = "Take both tokens from one app's page at Slack"
        return about.fail(text, remedy)
    if not app:
        text = "Socket Mode opens; Slack did not say which app the token belongs to"
        return about.confirm(text)
    return about.confirm(f"Socket Mode opens, for the app {app}")


def look_up_token_app(client: WebClient, token: str) -> str:
    """Connect with an app-level token until Slack's first message, and return the app id in it.

    "" if it names none, or none comes in time. Raises what slack_sdk raises if no connection opens.
    """
    line = ClickListener(client, token, secrets.token_hex(8))
    try:
        return line.open().app_id
    except TimeoutError:
        return ""
    finally:
        line.close()


MISUSE_EXIT_CODE = 2
CALL_TIMEOUT_SECONDS = 15
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OTHER_CONNECTION_WARNING = (
    "Another process is connected with this app, perhaps the bot. Slack sends each delivery to only"
    " one, so your click may go there, and people's clicks may fail during this check."
)
OPERATOR_HANDLE = "@me"  # the person in COUNTERSIGN_OPERATOR
_PERSON_PATTERN = re.compile(r"@\S+|[UW][A-Z0-9]{5,}")


def run_live_check(environ: MutableMapping[str, str], dotenv_path: Path, who: str) -> int:
    """Try the bot's Slack methods in the direct messages of `who` (@name or id); print a report.

    Returns the exit code: 0 if every step succeeded, 1 if one did not, 2 if nothing was tried.
    """
    # a new installation may have no policy yet; none is read, so any file will do
    settings = Settings.load(
        {**environ, "COUNTERSIGN_POLICY": __file__}, dotenv_path, reading=True, transport=None
    )
    token = settings.slack_bot_token.get_secret_value()
    if not token:
        print_error("SLACK_BOT_TOKEN is not set: there is no workspace to try.")
        return MISUSE_EXIT_CODE
    remove_variables_slack_misreads(environ, settings.slack_api_url)
    client = live_workspace.UploadTrackingClient(
        token, base_url=settings.slack_api_url, timeout=CALL_TIMEOUT_SECONDS, retry_handlers=[]
    )
    steps = live_workspace.LiveStepRunner(
        lambda tried: print_error(f"{tried.step}: {tried.result}")
    )
    me = steps.run_step("look up the bot", "auth.test", client.auth_test)
    if me is None:
        print_line(
            live_workspace.render_live_report(
                steps.all_steps, _list_report_facts(settings, False, 0), cut_short=False
            )
        )
        return 1
    try:
        user = _resolve_user_id(client, who, settings.operator)
    except LookupFailedError as error:
        print_error(error)
        return MISUSE_EXIT_CODE
    key = f"live-{secrets.token_hex(8)}"
    visit = live_workspace.LiveTrial(client, steps, user, str(me.get("team_id") or ""), key)
    return _run_steps_and_clean_up(visit, settings, str(me.get("bot_id") or ""))


def _run_steps_and_clean_up(visit: live_workspace.LiveTrial, settings: Settings, bot: str) -> int:
    """Run the live check's steps, clean up in any case and report; returns the exit code."""
    steps, cut_short = visit.steps, False
    token = settings.slack_app_token.get_secret_value()
    opened = open_click_listener(visit.client, steps, token, visit.key) if token else None
    line, hello = opened or (None, None)
    others = hello.connections - 1 if hello else 0
    if others > 0:
        print_error(OTHER_CONNECTION_WARNING)
    facts = _list_report_facts(settings, hello is not None, others)
    own_app = find_app_id(visit.client, bot)
    if hello and hello.app_id and own_app and hello.app_id != own_app:
        steps.record_step(
            "compare the apps of both tokens", "bots.info", "the tokens belong to two apps", 0.0
        )
    why = "not connected" if token else "SLACK_APP_TOKEN is not set"
    may_interrupt = True

    def interrupt(_signal: int, _frame: object) -> None:
        """Cut the steps short at the first signal; the clean-up is not interrupted."""
        nonlocal may_interrupt
        if may_interrupt:
            may_interrupt = False
            raise KeyboardInterrupt

    with handle_signals(dict.fromkeys(STOP_SIGNALS, interrupt)):
        try:
            _run_steps(visit, line, why)
        except KeyboardInterrupt:
            cut_short = True
        finally:
            may_interrupt = False
            visit.remove_everything()
            if line is not None:
                line.close()
    print_line(live_workspace.render_live_report(steps.all_steps, facts, cut_short))
    if cut_short:
        raise KeyboardInterrupt
    return 0 if all(each.is_ok for each in steps.all_steps) else 1


def _run_steps(visit: live_workspace.LiveTrial, line: ClickListener | None, why: str) -> None:
    visit.run_message_steps()
    if visit.channel:
        visit.show_status_and_stream()
        visit.upload_file()
    visit.publish_home()
    run_button_click_step(visit, line, why)


def _list_report_facts(settings: Settings, connected: bool, others: int) -> list[str]:
    """Return the report's lines on versions, time and connection, which name no workspace."""
    at = SystemClock().now().strftime("%Y-%m-%d %H:%M UTC")
    host = split_url(settings.slack_api_url).hostname or ""
    is_slack = host == "slack.com" or host.endswith(".slack.com")
    line = "connected by Socket Mode" if connected else "not connected by Socket Mode"
    if connected:
        line += f", beside {others} other connections of this app" if others else ", alone"
    return [
        f"Countersign {version.describe_version()}, Python {platform.python_version()},"
        f" slack_sdk {slack_sdk.version.__version__}",
        f"{at}, at {'Slack itself' if is_slack else 'an address that is not Slack'}",
        line,
    ]


def _resolve_user_id(client: WebClient, who: str, operator: str | None) -> str:
    """Return the user id of `who`; raises LookupFailedError with a sentence."""
    if not _PERSON_PATTERN.fullmatch(who):
        raise LookupFailedError(f"--live takes @name or a user id such as U0123ABC, not {who!r}.")
    if not who.startswith("@"):
        return who
    directory = SlackDirectory(client, SystemClock())
    try:
        user_ids = sorted(directory.find_people_by_name(who[1:]))
    except LookupFailedError as error:
        raise LookupFailedError(f"{who} cannot be looked up ({error}); give an id.") from None
    finally:
        directory.close()
    if not user_ids and who == OPERATOR_HANDLE and operator:
        return operator
    if not user_ids and who == OPERATOR_HANDLE:
        raise LookupFailedError(
            f"{OPERATOR_HANDLE} is the person in COUNTERSIGN_OPERATOR; set it, or give an id."
        )
    if len(user_ids) != 1:
        raise LookupFailedError(
            f"{who} is {'several people' if user_ids else 'nobody'}; give an id."
        )
    return user_ids[0]
