"""Files of the local Slack: how the API shows them, and sharing them as messages.

Bytes stay in memory. No permissions are checked here: the caller has done so. Called with the
world's lock held.
"""

from __future__ import annotations

from slack_sandbox.spec.slack_error import Json
from slack_sandbox.workspace import events, messages
from slack_sandbox.workspace.file_record import TEXT_FILETYPES, File
from slack_sandbox.workspace.messages import Draft
from slack_sandbox.workspace.records import Message
from slack_sandbox.workspace.state import World

FILE_LIMIT = 1_000_000_000  # bytes of one file, Slack's limit
STORE_LIMIT = 256 * 1024 * 1024  # bytes of all files: the sandbox keeps them in memory
SNIPPET_LIMIT = 1_000_000  # bytes
PREVIEW_CHARS = 500
_WORDS = {
    "csv": "CSV",
    "json": "JSON",
    "md": "Markdown",
    "pdf": "PDF",
    "png": "PNG",
    "text": "Plain Text",
}


def stored(world: World) -> int:
    """The bytes that all files take up or will."""
    return sum(file.size for file in world.files.values() if not file.deleted)


def audience(world: World, file: File) -> set[str]:
    """Return who may see the file: its owner, and the members of channels where it was shared."""
    return {file.user}.union(*(world.channels[channel].members for channel in file.shares))


def file_json(world: World, file: File) -> Json:
    """A file object, as files.info and messages show it."""
    if file.deleted:
        return {"id": file.id, "mode": "tombstone"}
    address = f"{world.url}{file.url_path(world.team)}"
    kinds = {channel: world.channels[channel].kind for channel in file.shares}
    shown: Json = {
        "id": file.id,
        "created": file.created,
        "timestamp": file.created,
        "name": file.name,
        "title": file.title or file.name,
        "mimetype": file.mimetype,
        "filetype": file.filetype,
        "pretty_type": _WORDS.get(file.filetype, file.filetype.capitalize()),
        "user": file.user,
        "user_team": world.by_id[file.user].team_id if file.user in world.by_id else world.team,
        "editable": bool(file.snippet_type),
        "size": file.size,
        "mode": "snippet" if file.snippet_type else "hosted",
        "is_external": False,
        "external_type": "",
        "is_public": "channel" in kinds.values(),
        "public_url_shared": False,
        "display_as_bot": False,
        "username": "",
        "url_private": address,
        "url_private_download": f"{address}?download=1",
        "permalink": address,
        "media_display_type": "unknown",
        "has_rich_preview": False,
        "file_access": "visible",
    }
    if file.alt_txt:
        shown["alt_txt"] = file.alt_txt
    return shown | _preview(file)


def _preview(file: File) -> Json:
    if not file.data or not (file.snippet_type or file.filetype in TEXT_FILETYPES):
        return {}
    text = file.data[: PREVIEW_CHARS * 4].decode("utf-8", "replace")
    short = text[:PREVIEW_CHARS]
    lines = file.data.count(b"\n") + (not file.data.endswith(b"\n"))
    return {"preview": short, "preview_is_truncated": len(short) < file.size, "lines": lines}


def share(world: World, files: list[File], draft: Draft) -> Message:
    """Post the files as one message, with the draft's text as comment, and tell the apps."""
    channel = draft.channel
    draft.subtype = "file_share"
    for file in files:
        file.shares.setdefault(channel.id, [])
    shown = [file_json(world, file) for file in files]
    draft.extra = {"files": shown, "upload": True, "display_as_bot": False}
    message = messages.add(world, draft)
    for file in files:
        place: Json = {
            "ts": message.ts,
            "channel_name": channel.name,
            "team_id": world.team,
            "share_user_id": draft.user,
        }
        file.shares[channel.id].append(
            place | ({"thread_ts": message.root} if message.root != message.ts else {})
        )
        event: Json = {
            "type": "file_shared",
            "file_id": file.id,
            "user_id": file.user,
            "file": {"id": file.id},
        }
        events.emit_members(world, event | {"channel_id": channel.id}, channel)
    return message


def delete(world: World, file: File) -> None:
    """Take the file away; the messages that showed it keep its tombstone."""
    places = [(channel, place["ts"]) for channel, there in file.shares.items() for place in there]
    file.data, file.deleted = None, True
    for channel, ts in places:
        if message := world.find(channel, ts):
            shown = [
                file_json(world, file) if each["id"] == file.id else each
                for each in message.body["files"]
            ]
            messages.change(world, message, {"files": shown})
    for each in file.shares:
        event = {"type": "file_deleted", "file_id": file.id, "channel_ids": list(file.shares)}
        events.emit_members(world, event, world.channels[each])


def shown_with_shares(world: World, file: File) -> Json:
    """A file object with where it is shared, as files.info and files.list return it."""
    by_kind: dict[str, list[str]] = {"channels": [], "groups": [], "ims": []}
    shares: dict[str, Json] = {}
    for channel, places in file.shares.items():
        kind = world.channels[channel].kind
        by_kind[{"channel": "channels", "im": "ims"}.get(kind, "groups")].append(channel)
        shares.setdefault("public" if kind == "channel" else "private", {})[channel] = [
            dict(each) for each in places
        ]
    return file_json(world, file) | by_kind | {"shares": shares, "comments_count": 0}


def new(world: World, name: str, user: str, size: int) -> File:
    """Store and return a new file, without bytes and in no channel."""
    file = File(world.new_id("F"), name, user, size, int(world.now()))
    world.files[file.id] = file
    return file


def uploaded(world: World, name: str, user: str, data: bytes) -> File:
    """A file that a person has just uploaded, in no channel yet."""
    file = new(world, name, user, len(data))
    file.data, file.completed = data, True
    return file
