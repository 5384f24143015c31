"""What a person wrote to the bot, as text for the model, and whence deliveries come. Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

from bot.messages.text import plain, visible
from bot.tools.invisible_characters import is_hidden, is_plain

# the subtypes of what a person writes; the others say what became of a message, or of a channel
WRITTEN = (None, "file_share", "thread_broadcast")
CANCEL = frozenset(
    f"{verb}{what}"
    for verb in ("cancel", "stop", "abort")
    for what in ("", " it", " this", " that", " this request", " the request", " my request")
) | {"never mind", "nevermind", "forget it"}

THANKS = frozenset({"thanks", "thank", "thx", "ty", "cheers"})
POLITE = THANKS | {"you", "very", "so", "much", "a", "lot", "many", "all", "again", "for", "your"}
POLITE |= {"help", "that", "is", "s", "great", "perfect", "ok", "okay"}
MOST_POLITE = 8  # words
MOST_OF_NAME = 80  # characters of a file's name
_CHANNEL = re.compile(r"<#[CG][A-Z0-9]+\|([^>]+)>")
_LINK = re.compile(r"<(?:(?:https?|mailto):[^|>]+)\|([^>]+)>|<(https?://[^|>]+)>")


def message_text(event: dict[str, Any], bot_user: str) -> str:
    """Return a message event's words: without the bot's mention, links as typed, files named.

    "" where there is nothing to be seen.
    """
    text = event.get("text") or ""
    if "<" in text:
        text = re.sub(rf"<@{re.escape(bot_user)}(\|[^>]*)?>", "", text)
        text = _CHANNEL.sub(r"#\1", text)
        text = _LINK.sub(lambda m: m[1] or m[2], text)
    # half a surrogate pair cannot be sent on
    text = html.unescape(text).encode("utf-8", "replace").decode().strip()
    files = [f"[attached file, called {file_name(file)}]" for file in event.get("files") or []]
    found = "\n".join([text, *files]).strip()
    return found if seen(found).strip() else ""


def file_name(file: Mapping[str, Any]) -> str:
    """Return a file's name as a name: in quotation marks, on one line, bounded, nothing hidden.

    Whoever names a file does not speak for who attaches it.
    """
    name = " ".join(str(file.get("name") or "").encode("utf-8", "replace").decode().split())
    for mark, instead in (("“", "'"), ("”", "'"), ('"', "'"), ("[", "("), ("]", ")")):
        name = name.replace(mark, instead)
    return f"“{plain(visible(name), MOST_OF_NAME)}”" if seen(name).strip() else "“unnamed”"


def seen(text: str) -> str:
    """The text without the characters that nobody can see."""
    return text if is_plain(text) else "".join(each for each in text if not is_hidden(each))


def may_be_for_us(event: dict[str, Any]) -> bool:
    """Return whether a message might be for the bot, as far as it alone tells.

    A bot's never is, nor a channel's message that begins a thread and mentions nobody.
    """
    if event.get("bot_id") or (event.get("previous_message") or {}).get("bot_id"):
        return False
    begins = event.get("subtype") in WRITTEN and event.get("thread_ts") in (None, event.get("ts"))
    in_channel = event.get("channel_type") in ("channel", "group", "mpim")
    return not (begins and in_channel and "<@" not in (event.get("text") or ""))


def installation_of(body: dict[str, Any]) -> str:
    """Return the workspace that an event is delivered to; "" for none named.

    In a channel shared between companies `team_id` may be the other one's.
    """
    granted = [each.get("team_id") for each in body.get("authorizations") or ()]
    teams = (*granted[:1], body.get("context_team_id"), body.get("team_id"))
    return next((team for team in teams if team), "")


def team_of(body: dict[str, Any]) -> str:
    """Return the workspace that a click or a submitted dialog comes from; "" for none named."""
    return (body.get("team") or {}).get("id") or (body.get("user") or {}).get("team_id") or ""


def gives_thanks(text: str) -> bool:
    """Return whether these are the words of somebody who is only polite, and no others."""
    words = re.findall(r"[^\W_]+", seen(text).lower())
    return 0 < len(words) <= MOST_POLITE and set(words) <= POLITE and bool(THANKS & {*words})


def takes_back(text: str) -> bool:
    """Return whether these are the words of somebody who takes a request back, and no others."""
    words = " ".join(seen(text).lower().strip(" .!").removeprefix("please ").split())
    return words.removesuffix(" please").rstrip(" ,") in CANCEL
