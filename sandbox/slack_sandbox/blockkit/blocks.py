"""Check blocks, views and message texts as Slack does: values in, Slack's messages out.

Each block is checked by the tables of `layouts`, `elements` and `objects`; the rules here look at a
payload as a whole, and run if every block is valid by itself. Messages come without Slack's
"[ERROR] " in front.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from slack_sandbox.blockkit.layouts import BLOCKS, MARKDOWN_LIMIT, Surface
from slack_sandbox.blockkit.objects import (
    Check,
    anything,
    escaped,
    flag,
    plain,
    problem,
    record,
    text,
    union,
)
from slack_sandbox.spec.slack_error import Json

SECOND_TABLE = "only_one_table_allowed"
TABLE_TEXT_LIMIT = 10_000  # characters of all table cells of a message together
UPDATE_TEXT_LIMIT = 4_000  # characters of chat.update's text
# Undocumented. Others measured that one markdown block may hold 13,297 characters, and 125 fewer
# with a divider below.
MESSAGE_SIZE_LIMIT, BLOCK_SIZE = 13_200, 100


def check_blocks(blocks: object, surface: Surface, at: str = "/blocks") -> list[str]:
    """Return what is wrong with the blocks of a message, modal or Home tab; [] if nothing is.

    One message for each problem. `at`: where the blocks are in the call, for the JSON pointers.
    """
    found = list(BLOCKS[surface](blocks, at))
    return found or [
        *_misplaced(blocks, surface, at),
        *(each for rule in RULES for each in rule(blocks, at)),
    ]


def error_of(problems: list[str]) -> str:
    """Return the error code that goes with problems of a message's blocks.

    A second table has another code than the rest, as others measured.
    """
    return "invalid_attachments" if problems[0].startswith(SECOND_TABLE) else "invalid_blocks"


def check_leave(
    blocks: list[Json], scopes: Collection[str], manifest: Json, at: str = "/blocks"
) -> list[str]:
    """Return which parts of valid blocks an app's scopes and manifest do not allow; [] if none.

    By docs.slack.dev, video and file_input need a scope each, videos have to be on the app's unfurl
    domains, and the addresses of an auth_provider on its auth_hosts.
    """
    features = manifest.get("features", {})
    hosts = features.get("user_connections", {}).get("auth_hosts", ())
    found: list[str] = []
    for here, each in _walk(blocks, at):
        kind = each.get("type")
        needs = {"video": "links.embed:write", "file_input": "files:read"}.get(str(kind))
        if needs and needs not in scopes:
            found.append(problem(f"{kind} needs the scope {needs}", here))
        if kind == "video" and not _within(each["video_url"], features.get("unfurl_domains", ())):
            found.append(problem("must be of an unfurl domain of the app", f"{here}/video_url"))
        for name in ("auth_url", "disconnect_url") if kind == "auth_provider" else ():
            if name in each and not _within(each[name], hosts):
                found.append(problem("must be of an auth host of the app", f"{here}/{name}"))
    return found


def _within(url: str, domains: Iterable[str]) -> bool:
    """Whether the address is on one of the domains, or below one."""
    host = urlsplit(url).hostname or ""
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


def check_view(view: object) -> list[str]:
    """Return what is wrong with a view for views.open, push, update or publish; [] if nothing."""
    found = list(_VIEW(view, "/view"))
    if found or not isinstance(view, dict):
        return found
    found = check_blocks(view["blocks"], view["type"], "/view/blocks")
    if not found and view["type"] == "modal" and "submit" not in view:
        asks = any(block["type"] == "input" for block in view["blocks"])
        found = [problem("missing required field: submit", "/view")] if asks else []
    return found


def check_message_text(text: str, *, update: bool = False) -> str | None:
    """Return the error code for the text of a message without blocks; None when it is sound.

    `update`: whether it is the text of chat.update. A text over 40,000 characters is no error when
    posting: Slack cuts it off and adds a warning.
    """
    if not text.strip():
        return "no_text"
    return "msg_too_long" if update and len(text) > UPDATE_TEXT_LIMIT else None


def check_message_size(blocks: list[dict[str, Any]]) -> str | None:
    """Return the error code for sound blocks that together are too long for a message, or None."""
    return "msg_blocks_too_long" if message_size(blocks) > MESSAGE_SIZE_LIMIT else None


def message_size(blocks: list[dict[str, Any]]) -> int:
    """Return the size of valid blocks, for MESSAGE_SIZE_LIMIT.

    It is the number of characters as Slack counts them, and BLOCK_SIZE for each block.
    """
    return BLOCK_SIZE * sum(1 for _ in _blocks(blocks, "")) + sum(_characters(blocks))


def _characters(value: Any) -> Iterator[int]:
    for _, each in _walk(value, ""):
        if isinstance(words := each.get("text"), str):
            yield len(words if each.get("type") in ("mrkdwn", "markdown") else escaped(words))


# Views.

_ABOUT = {
    "private_metadata": text(3000, low=0),
    "callback_id": text(255, low=0),
    "external_id": text(255, low=0),
}


_VIEW: Check = union(
    {
        "modal": record(
            {"title": plain(24), "blocks": anything},
            {
                "submit": plain(24),
                "close": plain(24),
                "clear_on_close": flag,
                "notify_on_close": flag,
                **_ABOUT,
            },
        ),
        "home": record({"blocks": anything}, _ABOUT),
    }
)

# Payloads as a whole.


def _blocks(blocks: Any, at: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each block with its pointer, those inside containers, carousels and plans included."""
    for index, block in enumerate(blocks):
        here = f"{at}/{index}"
        yield here, block
        yield from _blocks(block.get("child_blocks", ()), f"{here}/child_blocks")
        if block["type"] == "carousel":
            yield from _blocks(block["elements"], f"{here}/elements")


def _walk(value: Any, at: str) -> list[tuple[str, dict[str, Any]]]:
    """Each object at any depth with its pointer."""
    found = [(at, value)] if isinstance(value, dict) else []
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(each, dict | list):
            found += _walk(each, f"{at}/{key}")
    return found


def _repeated(values: Iterator[tuple[str, Any]], what: str) -> Iterator[str]:
    seen: set[Any] = set()
    for at, value in values:
        if value in seen:
            yield problem(f"{what} must be unique: {value}", at)
        seen.add(value)


def _unique_block_ids(blocks: Any, at: str) -> Iterator[str]:
    given = (
        (f"{here}/block_id", b["block_id"]) for here, b in _blocks(blocks, at) if "block_id" in b
    )
    yield from _repeated(given, "block_id")


def _unique_action_ids(blocks: Any, at: str) -> Iterator[str]:
    for here, block in _blocks(blocks, at):
        own = {name: each for name, each in block.items() if name != "child_blocks"}
        if block["type"] != "carousel":
            ids = (
                (f"{there}/action_id", e["action_id"])
                for there, e in _walk(own, here)
                if "action_id" in e
            )
            yield from _repeated(ids, "action_id")


def _one_focus(blocks: Any, at: str) -> Iterator[str]:
    focused = [
        f"{here}/focus_on_load" for here, value in _walk(blocks, at) if value.get("focus_on_load")
    ]
    yield from (problem("focus_on_load is allowed once", here) for here in focused[1:])


def _markdown_together(blocks: Any, at: str) -> Iterator[str]:
    if sum(len(block["text"]) for block in blocks if block["type"] == "markdown") > MARKDOWN_LIMIT:
        yield problem(
            f"all markdown blocks together must be less than {MARKDOWN_LIMIT + 1} characters", at
        )


def _table_text(blocks: Any, at: str) -> Iterator[str]:
    tables = [
        block["rows"]
        for _, block in _blocks(blocks, at)
        if block["type"] in ("table", "data_table")
    ]
    if sum(_characters(tables)) > TABLE_TEXT_LIMIT:
        yield problem(
            f"all table cells together must be less than {TABLE_TEXT_LIMIT + 1} characters", at
        )


AT_MOST: tuple[tuple[int, tuple[str, ...], str], ...] = (
    (1, ("table", "data_table"), SECOND_TABLE),
    (1, ("plan",), "only one plan allowed"),
    (2, ("data_visualization",), "no more than 2 data_visualization blocks allowed"),
)


def _counts(blocks: Any, at: str) -> Iterator[str]:
    for most, kinds, says in AT_MOST:
        there = [here for here, block in _blocks(blocks, at) if block["type"] in kinds]
        yield from (problem(says, here) for here in there[most:])


def _misplaced(blocks: Any, surface: Surface, at: str) -> Iterator[str]:
    for here, block in _blocks(blocks, at):
        for there, value in _walk(block, here):
            if value.get("type") == "file_input" and surface != "modal":
                yield problem("unsupported type: file_input", f"{there}/type")
            if value.get("response_url_enabled") and (
                surface != "modal" or block["type"] != "input"
            ):
                yield problem(
                    "response_url_enabled is only for inputs of a modal",
                    f"{there}/response_url_enabled",
                )


RULES: tuple[Callable[[Any, str], Iterator[str]], ...] = (
    _unique_block_ids,
    _unique_action_ids,
    _one_focus,
    _markdown_together,
    _table_text,
    _counts,
)
