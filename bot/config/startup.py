"""What is read before anything is built: the settings and the policy they name.

It builds nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bot.config.connection_settings import Transport
from bot.config.settings import Settings, SettingsError
from bot.policy.evaluation import Policy, PolicyError, parse
from bot.toml_file import unreadable
from bot.tools import Registry


class StartupError(Exception):
    """Countersign cannot start; `settings` and `policy` say why, a line each."""

    def __init__(self, settings: Sequence[str], policy: Sequence[str]) -> None:
        self.settings, self.policy = tuple(settings), tuple(policy)
        super().__init__("\n  ".join(["Countersign cannot start:", *settings, *policy]))


def read_settings_and_policy(
    environ: Mapping[str, str],
    dotenv_path: Path | None = None,
    transport: Transport | None = Transport.SOCKET,
) -> tuple[Settings, Policy]:
    """Settings from `environ` and the .env file, and their policy.

    `transport`: how Slack's deliveries come; None: as the secrets say that are there.
    Raises StartupError with all that is wrong.
    """
    settings: Settings | None = None
    wrong: Sequence[str] = ()
    try:
        settings = Settings.load(environ, dotenv_path, transport=transport)
        path: Path | None = settings.policy_path
    except SettingsError as error:
        path, wrong = error.policy_path, error.problems
    try:
        policy = read_policy(path) if path else None
    except PolicyError as error:
        raise StartupError(wrong, error.problems) from None
    if settings is None or policy is None:
        raise StartupError(wrong, ())
    return settings, policy


def read_policy(path: Path) -> Policy:
    """The policy in the file at `path`. Raises PolicyError, also where it cannot be read."""
    return parse(policy_text(path), str(path))


def fit_policy(policy: Policy, tools: Registry) -> Policy:
    """The policy for a bot with these tools. Raises PolicyError where it counts on others."""
    known = (*tools, *tools.left_out.values())
    fields = {each.name: frozenset(each.arguments.model_fields) for each in known}
    return policy.beside(fields, frozenset(each.name for each in tools if each.asks))


def policy_text(path: Path) -> str:
    """What the policy file at `path` says. Raises PolicyError where it cannot be read."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(str(path), [unreadable(str(path), error)]) from None
