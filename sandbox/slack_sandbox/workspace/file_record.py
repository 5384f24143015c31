"""The record of one file in the local Slack. Plain data; its bytes stay in memory."""

from __future__ import annotations

import mimetypes
from dataclasses import dataclass, field
from urllib.parse import quote

from slack_sandbox.spec.slack_error import Json

TEXT_FILETYPES = frozenset(  # filetypes that are shown as text
    ("csv", "json", "md", "text", "log", "py", "js", "html", "xml", "yaml", "yml", "sql", "sh")
)
_SHORT = {"txt": "text", "markdown": "md", "jpeg": "jpg"}


@dataclass(slots=True, eq=False)
class File:
    """One file, from the address it is to be uploaded to until its deletion."""

    id: str
    name: str
    user: str  # the uploader's user id
    size: int  # bytes, as announced
    created: int  # Unix seconds
    title: str = ""
    alt_txt: str = ""
    snippet_type: str = ""
    data: bytes | None = None  # None before the upload
    completed: bool = False  # files.completeUploadExternal was called, or a person uploaded it
    deleted: bool = False
    # channel id -> [{"ts", "thread_ts"?, …}]
    shares: dict[str, list[Json]] = field(default_factory=dict)

    @property
    def filetype(self) -> str:
        """Slack's short word for the kind of file."""
        ending = self.snippet_type or (
            self.name.rsplit(".", 1)[1].lower() if "." in self.name else ""
        )
        return _SHORT.get(ending, ending) or "binary"

    @property
    def mimetype(self) -> str:
        """The media type, by the name."""
        if self.snippet_type or self.filetype in TEXT_FILETYPES - {
            "csv",
            "json",
            "html",
            "xml",
            "sh",
            "js",
        }:
            return "text/plain"
        return mimetypes.guess_type(self.name)[0] or "application/octet-stream"

    def url_path(self, team: str) -> str:
        """Return the path, below the sandbox's address, of the file for that workspace."""
        return f"/files-pri/{team}-{self.id}/{quote(self.name)}"
