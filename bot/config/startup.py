"""Reads the settings and the policy at the start, and the policy file again when it changes.

A valid new policy replaces the old one; an invalid one does not. The content of the file and of
those that it names counts, not their times. It is judged only once two looks have found the same
content, so that a half-written file, whose beginning may be a looser policy, is never in force.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bot.clock import Clock
from bot.config.connection_settings import Transport
from bot.config.settings import Settings, SettingsError
from bot.monitoring.spans import Incident, Tracer
from bot.policy.approver_lists import MAX_OWNERS_FILE_CHARS
from bot.policy.evaluation import CurrentPolicy, Policy, PolicyError, list_owner_file_names, parse
from bot.toml_file import unreadable_file_sentence
from bot.tools import Registry
from storage import trail
from storage.record import Store


class StartupError(Exception):
    """Raised if Countersign cannot start; `settings` and `policy` say why, a line each."""

    def __init__(self, settings: Sequence[str], policy: Sequence[str]) -> None:
        self.settings, self.policy = tuple(settings), tuple(policy)
        super().__init__("\n  ".join(["Countersign cannot start:", *settings, *policy]))


def read_settings_and_policy(
    environ: Mapping[str, str],
    dotenv_path: Path | None = None,
    transport: Transport | None = Transport.SOCKET,
) -> tuple[Settings, Policy]:
    """Return the settings from `environ` and the .env file, and the policy that they name.

    `transport`: how Slack's deliveries arrive; None: the one whose secret is given. Raises
    StartupError with all problems.
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
    """Return the policy in the file at `path`. Raises PolicyError, also if it cannot be read."""
    text = read_policy_text(path)
    return parse(text, str(path), read_named_files(path, text))


def adapt_policy_to_tools(policy: Policy, tools: Registry) -> Policy:
    """Return the policy bound to these tools. Raises PolicyError if it relies on other tools."""
    known = (*tools, *tools.excluded_tools.values())
    fields = {each.name: frozenset(each.arguments.model_fields) for each in known}
    return policy.bind_to_tools(
        fields, frozenset(each.name for each in tools if each.needs_approval)
    )


def read_policy_text(path: Path) -> str:
    """Return the text of the policy file at `path`. Raises PolicyError if it cannot be read."""
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(str(path), [unreadable_file_sentence(str(path), error)]) from None


def read_named_files(path: Path, text: str) -> dict[str, str]:
    """Return the texts of the files that the policy `text` names, which lie beside it at `path`.

    A file that cannot be read is left out, and the policy is refused for that later.
    """
    found = {}
    for name in list_owner_file_names(text, str(path)):
        beside = path.parent / name
        with suppress(OSError, UnicodeDecodeError), beside.open(encoding="utf-8-sig") as file:
            found[name] = file.read(MAX_OWNERS_FILE_CHARS + 1)
    return found


log = logging.getLogger("countersign.reload")
POLICY_CHECK_INTERVAL = timedelta(seconds=3)


@dataclass
class PolicyReloader:
    """Replaces the policy when its file changes; one per process, used by the loop only."""

    _path: Path
    _current: CurrentPolicy  # replaced when the file at `_path` has other content
    _store: Store
    _clock: Clock
    _list_policy_misfits: Callable[[Policy], Sequence[str]]  # what does not fit the bot's tools
    _tracer: Tracer  # counts refused policies
    _on_policy_replaced: Callable[[], None]  # called once a new policy is in force
    _seen_fingerprint: str = ""  # of the file when last read
    _settled_fingerprint: str = ""  # of the file when last applied or refused

    def __post_init__(self) -> None:
        self._applied_digest = self._current.digest  # of the policy applied last
        self._looked_at = datetime.min.replace(tzinfo=UTC)

    def reload_if_changed(self) -> timedelta | None:
        """Read the policy file at most every 3 seconds; apply a change that two reads agree on.

        Returns how soon to look again if the file has just changed, else None.
        """
        now = self._clock.now()
        if now - self._looked_at >= POLICY_CHECK_INTERVAL:
            self._looked_at = now
            text, problems, files = "", tuple[str, ...](), dict[str, str]()
            try:
                text = read_policy_text(self._path)
                files = read_named_files(self._path, text)
            except PolicyError as error:
                problems = error.problems
            fingerprint = hashlib.sha256(repr((text, problems, files)).encode()).hexdigest()
            if fingerprint == self._seen_fingerprint != self._settled_fingerprint:
                self._replace_policy(text, files, problems)
                self._settled_fingerprint = fingerprint
            self._seen_fingerprint = fingerprint
        return (
            POLICY_CHECK_INTERVAL if self._seen_fingerprint != self._settled_fingerprint else None
        )

    def _replace_policy(self, text: str, files: Mapping[str, str], problems: Sequence[str]) -> None:
        try:
            parsed = None if problems else parse(text, str(self._path), files)
            policy = parsed and self._adapt_to_current_tools(parsed)
        except PolicyError as error:
            policy, problems = None, error.problems
        if policy is not None and (problems := self._list_policy_misfits(policy)):
            policy = None
        if policy is None:
            self._tracer.report_incident(Incident.POLICY_REFUSED)
            log.error(
                "the new policy is refused, and the old one stays in force:\n  %s",
                "\n  ".join(problems),
            )
            return
        if policy.digest == self._applied_digest:
            return
        data = {"digest": policy.digest, "was": self._applied_digest, "rules": len(policy.rules)}
        with self._store.write() as tx:
            trail.record_event(
                tx, "policy.reloaded", at=self._clock.now(), actor="system", data=data
            )
        self._current.policy, self._applied_digest = policy, policy.digest
        self._on_policy_replaced()
        log.info(
            "the policy was reloaded: %d rules, digest %s", len(policy.rules), policy.digest[:8]
        )

    def _adapt_to_current_tools(self, policy: Policy) -> Policy:
        """Return the new policy for the current tools; PolicyError if it does not fit them."""
        now = self._current.policy
        return policy if now.tools is None else policy.bind_to_tools(now.tools, now.asking)
