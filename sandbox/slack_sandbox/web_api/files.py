"""files.*: upload by address, look at, list and delete. Called with the world's lock held."""

from __future__ import annotations

import secrets
from typing import Any

from slack_sandbox.spec.slack_error import Json, SlackError, invalid
from slack_sandbox.web_api import file_store, message_parts
from slack_sandbox.web_api.arguments import Args
from slack_sandbox.web_api.file_store import FILE_LIMIT, SNIPPET_LIMIT, STORE_LIMIT
from slack_sandbox.workspace.file_record import File
from slack_sandbox.workspace.messages import Draft
from slack_sandbox.workspace.people import Channel
from slack_sandbox.workspace.state import World

ALT_LIMIT = 1_000  # characters of alt_txt
MAX_SHARE_CHANNELS = 100  # in one call
_TYPES = ("all", "spaces", "snippets", "images", "gdocs", "zips", "pdfs")


def get_url(world: World, args: Args) -> Json:
    """files.getUploadURLExternal: an address that takes the bytes of one file, once."""
    name, length = args.text("filename"), args.number("length", 0)
    if length <= 0:
        raise invalid(["must be greater than 0 [json-pointer:/length]"])
    alt_txt, snippet_type = args.text("alt_txt"), args.text("snippet_type")
    if len(alt_txt) > ALT_LIMIT:
        raise SlackError("alt_txt_too_large")
    if snippet_type and length > SNIPPET_LIMIT:
        raise SlackError("snippet_too_large")
    if length > FILE_LIMIT:
        raise SlackError("file_upload_size_restricted")
    if file_store.stored(world) + length > STORE_LIMIT:
        raise SlackError("storage_limit_reached")
    file = file_store.new(world, name, args.app.bot_user, length)
    file.alt_txt, file.snippet_type = alt_txt, snippet_type
    ticket = secrets.token_urlsafe(24)
    world.uploads[ticket] = file.id
    return {"upload_url": f"{world.url}/upload/v1/{ticket}", "file_id": file.id}


def _named(world: World, args: Args) -> list[File]:
    """The uploaded files that a call completes, with their titles."""
    wanted: Any = args.json("files")
    if (
        not isinstance(wanted, list)
        or not wanted
        or not all(isinstance(each, dict) for each in wanted)
    ):
        raise invalid(["must provide an array of objects [json-pointer:/files]"])
    found = []
    for each in wanted:
        file = world.files.get(str(each.get("id")))
        if file is None or file.user != args.app.bot_user or file.data is None or file.completed:
            raise SlackError("file_not_found")
        found.append(file)
    for each, file in zip(wanted, found, strict=True):
        file.title = str(each.get("title") or file.name)
    return found


def _places(world: World, args: Args) -> list[Channel]:
    """Return the channels in which a call shares its files; SlackError if one is not allowed."""
    names = args.names("channels") or args.names("channel_id")
    if len(names) > MAX_SHARE_CHANNELS:
        raise SlackError("channels_limit_exceeded")
    places = []
    for name in names:
        channel = world.seen_by(args.app, name)
        if channel.is_archived:
            raise SlackError("posting_to_channel_denied")
        if args.app.bot_user not in channel.members:
            raise SlackError("not_in_channel")
        places.append(channel)
    return places


def complete(world: World, args: Args) -> Json:
    """files.completeUploadExternal: share what was uploaded, as one message in each channel."""
    places, blocks = _places(world, args), message_parts.checked_blocks(args)
    comment, thread_ts = (
        args.text("initial_comment"),
        message_parts.thread_of(args, "invalid_arguments"),
    )
    files = _named(world, args)
    for file in files:
        file.completed = True
    for channel in places:
        draft = Draft(channel, args.app.bot_user, comment, list(blocks or []), thread_ts)
        file_store.share(world, files, draft)
    return {"files": [file_store.file_json(world, file) for file in files]}


def _seen(world: World, args: Args) -> File:
    """The file that a call names, as far as the app may see it."""
    file: File | None = world.files.get(args.text("file"))
    if (
        file is None
        or not file.completed
        or args.app.bot_user not in file_store.audience(world, file)
    ):
        raise SlackError("file_not_found")
    if file.deleted:
        raise SlackError("file_deleted")
    return file


def info(world: World, args: Args) -> Json:
    """files.info."""
    file = _seen(world, args)
    text = file_store.file_json(world, file).get("preview")
    content: Json = (
        {}
        if text is None or file.data is None
        else {"content": file.data.decode("utf-8", "replace")}
    )
    return {"file": file_store.shown_with_shares(world, file), "comments": [], **content}


def delete(world: World, args: Args) -> Json:
    """files.delete: the app's own."""
    file = _seen(world, args)
    if file.user != args.app.bot_user:
        raise SlackError("cant_delete_file")
    file_store.delete(world, file)
    return {}


def _kind(file: File) -> str:
    """The word by which files.list is asked for files of this kind."""
    if file.snippet_type:
        return "snippets"
    return (
        "images"
        if file.mimetype.startswith("image/")
        else {"zip": "zips", "pdf": "pdfs"}.get(file.filetype, "")
    )


def list_all(world: World, args: Args) -> Json:
    """files.list: what the app may see, the latest first, in numbered pages."""
    user, channel, types = args.text("user"), args.text("channel"), args.names("types") or ["all"]
    if user and user not in world.by_id and world.app_of_bot(user) is None:
        raise SlackError("user_not_found")
    if not set(types) <= set(_TYPES):
        raise SlackError("unknown_type")
    low, high = args.number("ts_from", 0), args.number("ts_to", 1 << 60)
    found = [
        file
        for file in world.files.values()
        if file.completed
        and not file.deleted
        and args.app.bot_user in file_store.audience(world, file)
        and user in ("", file.user)
        and (not channel or channel in file.shares)
        and low <= file.created <= high
        and not {"all", _kind(file)}.isdisjoint(types)
    ]
    found.reverse()
    count, number = args.number("count", 100), args.number("page", 1)
    if not 0 < count <= 1000 or number < 1:
        raise invalid(
            [
                "out of range [json-pointer:/count]"
                if number >= 1
                else "out of range [json-pointer:/page]"
            ]
        )
    shown = found[(number - 1) * count : number * count]
    paging = {"count": count, "total": len(found), "page": number, "pages": -(-len(found) // count)}
    return {
        "files": [file_store.shown_with_shares(world, file) for file in shown],
        "paging": paging,
    }


METHODS = {
    "files.getUploadURLExternal": get_url,
    "files.completeUploadExternal": complete,
    "files.info": info,
    "files.delete": delete,
    "files.list": list_all,
}
