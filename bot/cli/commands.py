"""The bot's own commands, which the command line finds by an entry point."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from bot.start_errors import describe_setup_error, describe_start_error
from bot.version import describe_version as describe_version
from countersign.cli.commands import CommandEntry
from countersign.cli.console import CommandError

# commands print what matters; only those that configure logging show the log
logging.getLogger("countersign").addHandler(logging.NullHandler())

_SERVER_COMMANDS = ("run", "serve", "demo", "sandbox")  # they run until Ctrl-C
_COMMAND_TABLE = (  # name, place in bot.cli, and help
    ("run", "service:RUN", "the bot, with settings from the environment and .env"),
    ("serve", "service:SERVE", "the same, where Slack sends signed HTTP requests"),
    ("key", "key", "keys for programs that ask over HTTP: new, renew, list, revoke"),
    ("passkeys", "key:PASSKEYS", "the passkeys that people sign with: list, revoke"),
    ("demo", "service:DEMO", "try it: a local Slack, the bot and a stand-in for the model"),
    ("sandbox", "service:SANDBOX", "the local Slack alone, for any app that honours SLACK_API_URL"),
    ("doctor", "doctor.doctor", "check everything that the bot needs to start, and say what to do"),
    (
        "workspaces",
        "workspaces",
        "the workspaces that are served: list, show, pause, remove …",
    ),
    ("audit", "audit", "verify, show or export the record of what was decided and done"),
    ("chat", "chat", "ask the agent and decide at the terminal, as the operator"),
    ("pending", "request_views:PENDING", "what is waiting for people, and for whom"),
    ("show", "request_views:SHOW", "the whole history of a request or a call"),
    ("approve", "decisions:APPROVE", "approve a call or a plan, as the operator"),
    ("reject", "decisions:REJECT", "reject a call, as the operator"),
    ("edit", "decisions:EDIT", "change the values of a waiting call, as the operator"),
    ("answer", "decisions:ANSWER", "answer a question, as the operator"),
    ("resolve", "decisions:RESOLVE", "record the outcome of a call whose outcome is unknown"),
    ("cancel", "decisions:CANCEL", "stop one of the operator's own requests"),
    ("receipt", "audit:RECEIPT", "signed statements of what was decided, for `countersign verify`"),
    ("report", "report", "how people decided: how many, how fast, by tool and by approver"),
    (
        "purge",
        "data_retention:PURGE",
        "erase what was said in old requests, while the bot is stopped",
    ),
    (
        "forget",
        "data_retention:FORGET",
        "erase what one person asked and wrote, also while the bot runs",
    ),
    ("export", "data_retention:EXPORT", "everything held about one person, as JSON"),
    ("backup", "backup:BACKUP", "back up the whole record into one file, while the bot works"),
    ("restore", "backup:RESTORE", "replace the record with a backup, while the bot is stopped"),
    ("copy-to", "backup:COPY_TO", "copy the record to PostgreSQL, while the bot is stopped"),
    ("explain", "policy:EXPLAIN", "what would happen to a call: which rule applies, who decides"),
    ("mcp", "mcp", "accept what MCP servers say about their tools"),
    ("policy", "policy", "test, check or replay a policy, or have rules suggested"),
)
COMMANDS: Mapping[str, CommandEntry] = {
    name: CommandEntry(f"bot.cli.{place}", text, is_server=name in _SERVER_COMMANDS)
    for name, place, text in _COMMAND_TABLE
}


def describe_error(error: Exception) -> CommandError | None:
    """Return the CommandError for a known error, with exit code 2 for wrong settings, or None."""
    if said := describe_setup_error(error):
        return CommandError(said, 2)
    said = describe_start_error(error)
    return CommandError(said) if said else None
