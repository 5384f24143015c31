"""The bot's own commands, which the command line finds by an entry point."""

from __future__ import annotations

from collections.abc import Mapping

from bot import version
from countersign.cli.commands import CommandEntry

COMMANDS: Mapping[str, CommandEntry] = {
    "run": CommandEntry(
        "bot.cli.run", "the bot, with settings from the environment and .env", serves=True
    ),
    "serve": CommandEntry(
        "bot.cli.serve", "the same, where Slack sends signed HTTP requests", serves=True
    ),
    "key": CommandEntry(
        "bot.cli.key", "keys by which programs ask over HTTP: new, renew, list, revoke"
    ),
    "demo": CommandEntry(
        "bot.cli.demo", "a local Slack, a local planner and the bot, in one process", serves=True
    ),
    "sandbox": CommandEntry(
        "bot.cli.sandbox",
        "the local Slack alone, for any app that honours SLACK_API_URL",
        serves=True,
    ),
    "doctor": CommandEntry("bot.cli.doctor.doctor", "look at everything a start depends on"),
    "audit": CommandEntry(
        "bot.cli.audit", "verify, show or export the record of what was decided and done"
    ),
    "chat": CommandEntry(
        "bot.cli.chat", "ask the agent and decide at the terminal, as the operator"
    ),
    "pending": CommandEntry("bot.cli.pending", "what waits for people, and for whom"),
    "show": CommandEntry("bot.cli.show", "a request's or a call's whole life"),
    "approve": CommandEntry("bot.cli.approve", "approve a call or a plan, as the operator"),
    "reject": CommandEntry("bot.cli.reject", "reject a call, as the operator"),
    "edit": CommandEntry("bot.cli.edit", "change a call that waits, as the operator"),
    "answer": CommandEntry("bot.cli.answer", "answer a question, as the operator"),
    "resolve": CommandEntry(
        "bot.cli.resolve", "say what became of a call that nobody knows the end of"
    ),
    "cancel": CommandEntry("bot.cli.cancel", "stop a request of the operator's own"),
    "report": CommandEntry(
        "bot.cli.report", "how people decided: how many, how fast, by tool and by approver"
    ),
    "purge": CommandEntry(
        "bot.cli.purge", "empty what was said in requests of long ago; the bot is stopped"
    ),
    "forget": CommandEntry(
        "bot.cli.forget", "empty what one person asked and wrote, beside the bot"
    ),
    "export": CommandEntry("bot.cli.export", "all that is held of one person, as JSON"),
    "backup": CommandEntry("bot.cli.backup", "all of the record in one file, while the bot works"),
    "restore": CommandEntry(
        "bot.cli.restore", "a backup in the place of the record; the bot is stopped"
    ),
    "copy-to": CommandEntry(
        "bot.cli.copy_to", "all of the record into PostgreSQL; the bot is stopped"
    ),
    "explain": CommandEntry(
        "bot.cli.explain", "what would become of a call: which rule, who decides, when"
    ),
    "mcp": CommandEntry(
        "bot.cli.mcp", "accept: look at the tools of MCP servers, and say yes to them"
    ),
    "policy": CommandEntry(
        "bot.cli.replay", "replay: which recorded calls a policy would have decided otherwise"
    ),
}


def complaint(error: Exception) -> str | None:
    """Return what to say of `error`; None where it is a fault of the program."""
    from bot.cli import complaints  # it knows the errors of every part, and imports them

    return complaints.complaint(error)


def described() -> str:
    """Return the version with its commit."""
    return version.describe_version()
