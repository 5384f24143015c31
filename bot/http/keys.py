"""API keys for programs: their text, and how the operator has them made, renewed and revoked.

A key reads csk_<id>_<secret>; of the secret only a hash is stored. The secret that signs a key's
webhooks is stored nowhere: it is derived from the installation's key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

from fastapi import Body

from bot.http.api_bodies import ProblemError, build_slack_unavailable_problem
from bot.policy.authority import LookupFailedError, LookupPendingError
from bot.runs.surfaces import Host
from bot.tools.names import SlackIdKind, SlackIdResolver
from countersign.wire import LOOPBACK_HOSTS
from storage import programs

_API_KEY_PATTERN = re.compile(r"csk_([0-9a-f]{16})_([A-Za-z0-9_-]{43})", re.ASCII)


class ApiKeyParts(NamedTuple):
    """The two parts of an API key: its id and its secret."""

    id: str  # not secret: it appears in the record
    secret: str  # 256 random bits

    def __str__(self) -> str:
        return f"csk_{self.id}_{self.secret}"

    @property
    def secret_hash(self) -> str:
        """Return the hash of the secret, which is what is stored."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    def has_hash(self, kept: str) -> bool:
        """Return whether `kept` is the hash of this secret; compares in constant time."""
        return hmac.compare_digest(self.secret_hash, kept)


def generate_api_key() -> ApiKeyParts:
    """Return a new random API key's parts."""
    return ApiKeyParts(secrets.token_hex(8), secrets.token_urlsafe(32))


def parse_api_key(text: str) -> ApiKeyParts | None:
    """Return the id and the secret of an API key's text; None if the text is no API key."""
    found = _API_KEY_PATTERN.fullmatch(text)
    return ApiKeyParts(*found.groups()) if found else None


def derive_webhook_secret(installation: bytes, key_id: str) -> str:
    """Return the secret that signs a key's webhooks, in the form of Standard Webhooks: whsec_….

    `installation`: the key that signs the record; another one gives other secrets.
    """
    own = hmac.digest(installation, b"countersign webhooks", "sha256")  # for this purpose only
    signing = hmac.digest(own, key_id.encode(), "sha256")
    return f"whsec_{base64.b64encode(signing).decode()}"


_KEY_NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}", re.ASCII)
_TOOL_GLOB_PATTERN = re.compile(r"[A-Za-z0-9_.*?-]{1,64}", re.ASCII)
MAX_REQUESTS_PER_HOUR = 100_000
Name = Annotated[str, Body(embed=True)]  # a field of a JSON object, which has no other
SYSTEM_ACTOR = "system"  # who made a key, in the audit, if the settings name no operator


@dataclass(frozen=True, slots=True)
class KeySpec:
    """A key that the operator wants for a program."""

    name: str  # the program's name
    person: str  # who answers for the key: a Slack user id, or a @handle
    tools: list[str]  # patterns of the tools that it may ask for
    service: bool = False  # may ask in the name of any colleague
    per_hour: int = 60
    webhook: str = ""  # an address that is notified of the status of its requests


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new key, whose secrets are shown only this once."""

    key: str
    webhook_secret: str  # signs the messages to its webhook; "" if it has none


class KeyManager:
    """Makes, renews and revokes keys for the operator; thread-safe. Raises ProblemError."""

    def __init__(self, host: Host) -> None:
        """`host` gives the store and the settings, and looks people up in Slack."""
        self._host = host
        self._by = host.settings.operator or SYSTEM_ACTOR

    def create_key(self, spec: KeySpec) -> CreatedKey:
        """Make a key for a program. Looks people up in Slack."""
        try:
            person = self._resolve_person_id(spec.person)
            _check_key_spec(spec)
        except (LookupFailedError, LookupPendingError) as error:
            raise build_slack_unavailable_problem(error) from error
        except ValueError as error:
            raise _build_key_problem(
                HTTPStatus.UNPROCESSABLE_ENTITY, str(error).rstrip(".")
            ) from None
        return self._store_new_key(replace(spec, person=person))

    def renew_key(self, name: Name) -> CreatedKey:
        """Make another key for the program `name`, with the same rights; older keys stay valid."""
        with self._host.store.read() as tx:
            old = programs.find_current_api_key(tx, self._host.identity.team, name)
        if old is None:
            raise _build_unknown_key_problem(name)
        service, per_hour = old.is_service, old.per_hour
        same = KeySpec(name, old.person, list(old.tool_patterns), service, per_hour, old.webhook)
        return self._store_new_key(same, keep_current=True)

    def _store_new_key(self, spec: KeySpec, *, keep_current: bool = False) -> CreatedKey:
        host, text = self._host, generate_api_key()
        row = programs.ProgramApiKey(
            id=text.id,
            team=host.identity.team,
            name=spec.name,
            person=spec.person,
            is_service=spec.service,
            tools=json.dumps(spec.tools),
            per_hour=spec.per_hour,
            hash=text.secret_hash,
            webhook=spec.webhook,
            made_at=host.clock.now(),
        )
        with host.store.write() as tx:
            is_made = programs.store_api_key(tx, row, self._by, keep_current=keep_current)
        if not is_made:
            why = (
                f"there is already a key with that name; `countersign key revoke {spec.name}` "
                "ends it"
            )
            raise _build_key_problem(HTTPStatus.CONFLICT, why)
        signing = derive_webhook_secret(host.store.signing_key, text.id) if spec.webhook else ""
        return CreatedKey(str(text), signing)

    def revoke_key(self, name: Name) -> None:
        """Revoke all keys of the program `name`, or the one key that has that id.

        They are refused from the next request on.
        """
        host = self._host
        with host.store.write() as tx:
            if not programs.revoke_api_keys(
                tx, host.identity.team, name, self._by, at=host.clock.now()
            ):
                raise _build_unknown_key_problem(name)

    def _resolve_person_id(self, named: str) -> str:
        """Return the id of the person named; ValueError for nobody, or who is no full member."""
        authority = self._host.authority
        person = SlackIdResolver(authority.directory, None).resolve_id(SlackIdKind.PERSON, named)
        if not authority.is_active_colleague(person):
            raise ValueError(f"{named} is not a full member of this workspace")
        return person


def _build_unknown_key_problem(name: str) -> ProblemError:
    return _build_key_problem(HTTPStatus.NOT_FOUND, f"there is no valid key with the name {name!r}")


def _build_key_problem(status: HTTPStatus, why: str) -> ProblemError:
    return ProblemError(status, f"{why}.", topic="keys")


def _check_key_spec(spec: KeySpec) -> None:
    """Raise ValueError, with a sentence, if a key cannot be made as it is wanted."""
    if not _KEY_NAME_PATTERN.fullmatch(spec.name):
        raise ValueError("a name is up to 40 small letters, digits, '.', '_' and '-'")
    if not spec.tools or not all(map(_TOOL_GLOB_PATTERN.fullmatch, spec.tools)):
        raise ValueError("--tools takes names of tools, with * for any letters: 'deploy_*'")
    if not 1 <= spec.per_hour <= MAX_REQUESTS_PER_HOUR:
        raise ValueError(f"--per-hour must be a number from 1 to {MAX_REQUESTS_PER_HOUR:,}")
    if spec.webhook:
        _check_webhook_address(spec.webhook)


def _check_webhook_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("--webhook is not an address") from None
    if not host or parts.username or parts.password or not url.isascii() or not url.isprintable():
        raise ValueError(
            "--webhook must be an address, https://…, without a user name or password in it"
        )
    if parts.scheme != "https" and not (parts.scheme == "http" and host in LOOPBACK_HOSTS):
        raise ValueError("--webhook must begin with https://; http:// is for this machine only")
