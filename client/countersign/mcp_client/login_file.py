"""The file that keeps somebody's login at one server: its tokens, and what they were given for.

Who can read it can call the server in that person's name: it is its owner's alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import BaseModel, ValidationError

PRIVATE, PRIVATE_FOLDER = 0o600, 0o700


class KeptLogin(BaseModel):
    """What the file holds."""

    tokens: OAuthToken
    expires_at: float | None = None  # of the access token, by the clock of this machine
    client: OAuthClientInformationFull
    server: OAuthMetadata | None = None  # that gave the tokens, and renews them
    resource: ProtectedResourceMetadata | None = None


@dataclass(slots=True)
class LoginFile:
    """One file; several processes may have it open, and the newest login counts."""

    path: Path
    _seen: tuple[int, int] = (0, 0)

    def changed(self) -> KeptLogin | None:
        """Return what it holds, where that is not what this process has read or written last; None
        also for no file, and for one that cannot be read.
        """
        try:
            stat = self.path.stat()
            seen = stat.st_ino, stat.st_mtime_ns
            if seen == self._seen:
                return None
            self._seen = seen
            return KeptLogin.model_validate(json.loads(self.path.read_text("utf-8")))
        except (OSError, ValueError, ValidationError):
            return None

    def keep(self, login: KeptLogin) -> None:
        """Replace what it holds; raises OSError."""
        self.path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        beside = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
        try:
            with os.fdopen(file, "w", encoding="utf-8") as writing:
                writing.write(json.dumps(_as_json(login)))
            stat = beside.stat()
            beside.replace(self.path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        self._seen = stat.st_ino, stat.st_mtime_ns


def login_path(folder: Path, url: str) -> Path:
    """Return where in a folder the login at this address is kept."""
    return folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"


def expiry(tokens: OAuthToken) -> float | None:
    """Return until when the access token is good that was given just now; None: nobody said."""
    return None if tokens.expires_in is None else time.time() + tokens.expires_in


def _as_json(login: KeptLogin) -> Any:
    return login.model_dump(mode="json", exclude_none=True)
