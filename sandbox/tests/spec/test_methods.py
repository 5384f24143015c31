"""The facts about Web API methods, and what the code may answer, against Slack's reference."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sandbox.tests.spec.possible_errors import raised_by
from slack_sandbox.spec.facts import ANYWHERE, ERRORS, FACTS, SCOPES, TIERS, scope_for
from slack_sandbox.spec.table import WORDS_FOR_MISSING
from slack_sandbox.web_api.catalogue import METHODS

REFERENCE = Path(__file__).parents[4] / "shared" / "fixtures" / "slack_methods.json"
needs_reference = pytest.mark.skipif(
    not REFERENCE.exists(), reason="Slack's reference is not on this machine"
)
PER_MINUTE = {"t1": 1, "t2": 20, "t3": 50, "t4": 100, "t5": 600}

# Methods of the reference that the sandbox does not have, and methods of the sandbox that the
# scrape left out.
NOT_HERE = {
    "chat.command": "the reference has nothing but an error for it: clients of Slack itself call it"
}
NOT_IN_REFERENCE = {
    "api.test": "Slack has it; the scrape holds 81 methods of about 300",
    "auth.teams.list": "Slack has it, not in the scrape",
    "apps.uninstall": "Slack has it, not in the scrape",
    "dnd.teamInfo": "Slack has it, not in the scrape",
    "emoji.list": "Slack has it, not in the scrape",
    "usergroups.disable": "Slack has it, not in the scrape",
    "usergroups.enable": "Slack has it, not in the scrape",
    "users.setPresence": "Slack has it, not in the scrape",
}
SCOPE_DIFFERENCES = {
    "apps.connections.open": "the reference lists bot scopes only; this is the app-level token's",
}
REQUIRED_DIFFERENCES = {
    "chat.appendStream": "chunks do as well as markdown_text",
}
# Codes the sandbox may answer that the reference does not list: "method code" and the reason.
ERROR_DIFFERENCES = {
    r" (invalid_auth|internal_error|invalid_arguments|invalid_json|json_not_object)$": (
        "any method answers these; the reference lists some of them for some"
    ),
    r"^chat\.(postMessage|startStream) invalid_thread_ts$": "measured: a thread_ts that is no "
    "timestamp",
    r"^chat\.scheduleMessage (invalid_thread_ts|messages_tab_disabled|msg_blocks_too_long)$": (
        "as a post"
    ),
    r"^chat\.postEphemeral (invalid_thread_ts|msg_blocks_too_long)$": "as a post",
    r"^(chat\.(postMessage|scheduleMessage|\w+Stream)|files\.completeUploadExternal) "
    r"invalid_attachments$": "as chat.postEphemeral and chat.update; Slack's word for a second "
    "table, too",
    r"^chat\.(postMessage|\w+Stream) msg_too_long$": "markdown_text has a limit, and is not cut",
    r"^chat\.(start|append|stop)Stream msg_too_long$": "measured: a streamed message holds "
    "12,000 characters, too",
    r"^chat\.\w+Stream (cannot_provide_both_markdown_text_and_chunks|streaming_mode_mismatch)$": (
        "measured by others: a stream holds text or chunks, as it began"
    ),
    r"^(chat|files)\.\w+ invalid_attachments$": "measured: a second table; the reference lists "
    "it for two methods",
    r"^chat\.stopStream invalid_status$": "its session_status is the status of "
    "agents.sessions.setStatus",
    r"^chat\.meMessage messages_tab_disabled$": "as a post",
    r"^chat\.update msg_blocks_too_long$": "the same limit as in a post",
    r"^chat\.stopStream (stopped_by_user|invalid_blocks_format)$": "as its siblings",
    r"^conversations\.replies not_in_channel$": "as conversations.history: a thread is read by "
    "members",
    r"^files\.completeUploadExternal (invalid_blocks_format|msg_blocks_too_long)$": "its blocks "
    "are a post's blocks",
    r"^reactions\.list invalid_cursor$": "every paged method answers it; the reference lists it "
    "for most",
    r"^usergroups\.update "
    "(no_such_subteam|name_already_exists|handle_already_exists|bad_handle|forbidden_handle|"
    r"name_too_long|description_too_long|invalid_channel_provided)$": "what usergroups.create "
    "refuses, an update does",
    r"^users\.getPresence user_not_found$": "an unknown user; the reference lists no error of "
    "the method's own",
    r"^usergroups\.users\.update no_such_subteam$": "as usergroups.users.list",
}

# Codes that the code of a method raises and turns into another one.
CAUGHT = {
    "chat.unfurl": {  # all of them are cannot_parse_attachment
        "invalid_attachments",
        "invalid_blocks",
        "msg_blocks_too_long",
        "too_many_attachments",
    },
    "dnd.teamInfo": {"user_not_found"},  # user_not_visible
}


@cache
def reference() -> dict[str, Any]:
    """The methods of Slack's reference by name."""
    found: dict[str, Any] = json.loads(REFERENCE.read_text())
    return found


def shared() -> list[str]:
    """The methods in both the sandbox and the reference."""
    return sorted(set(FACTS) & set(reference()))


def unexplained(found: set[str], explanations: dict[str, str]) -> set[str]:
    """What no pattern explains; an explanation that explains nothing is returned, too."""
    used = {pattern for pattern in explanations if any(re.search(pattern, one) for one in found)}
    return {one for one in found if not any(re.search(pattern, one) for pattern in used)} | (
        set(explanations) - used
    )


def test_the_tables_are_about_the_same_methods() -> None:
    """Every method has facts, error codes and code that answers, unless no bot can call it."""
    assert set(FACTS) == set(SCOPES) == set(TIERS) == set(ERRORS)
    assert all(codes >= ANYWHERE for codes in ERRORS.values())
    assert set(FACTS) - set(METHODS) <= {
        name for name, facts in FACTS.items() if facts.caller != "bot"
    }
    assert set(METHODS) <= set(FACTS)


@needs_reference
def test_every_method_is_there() -> None:
    """The sandbox has the methods of the reference and no others, or there is a reason."""
    assert set(reference()) - set(FACTS) == set(NOT_HERE)
    assert set(FACTS) - set(reference()) == set(NOT_IN_REFERENCE)


@needs_reference
def test_scopes_equal_slacks() -> None:
    """Each method's scopes are those of the reference, or listed with a reason."""
    theirs = {name: reference()[name]["bot_scopes"] for name in shared()}
    different = {
        name
        for name, bot in theirs.items()
        if set(SCOPES[name]) != set([] if bot in (None, "none") else bot)
    }
    assert different == set(SCOPE_DIFFERENCES)


@needs_reference
def test_rate_limits_equal_slacks() -> None:
    """Each method's requests per minute are those of its tier."""
    assert {name: PER_MINUTE[reference()[name]["tier"]] for name in shared()} == {
        name: TIERS[name] for name in shared()
    }


@needs_reference
def test_required_arguments_equal_slacks() -> None:
    """Each method's required arguments are those of the reference, or listed with a reason."""
    theirs = {name: set(reference()[name]["required"] or ()) - {"token"} for name in shared()}
    assert {name for name in shared() if set(FACTS[name].required) != theirs[name]} == set(
        REQUIRED_DIFFERENCES
    )


@needs_reference
def test_body_formats_equal_slacks() -> None:
    """A JSON body is read where Slack reads one."""
    ours = {name for name in shared() if FACTS[name].json}
    assert ours == {name for name in shared() if reference()[name]["json_body"]}


@needs_reference
def test_listed_error_codes_equal_slacks() -> None:
    """A method lists only error codes of Slack's reference, or the difference is listed."""
    extra = {
        f"{name} {code}"
        for name in shared()
        for code in ERRORS[name] - set(reference()[name]["errors"])
    }
    assert unexplained(extra, ERROR_DIFFERENCES) == set()


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_error_code_in_the_code_is_listed(method: str) -> None:
    """Every error code in the code that answers a method is one of the method's codes."""
    assert raised_by(METHODS[method]) - ERRORS[method] == CAUGHT.get(method, set())


@pytest.mark.parametrize(("method", "argument"), sorted(WORDS_FOR_MISSING))
def test_missing_arguments_get_a_code_of_the_method(method: str, argument: str) -> None:
    """A missing argument is answered with a code of the method about a required one."""
    assert WORDS_FOR_MISSING[method, argument] in ERRORS[method]
    assert argument in FACTS[method].required


@pytest.mark.parametrize(
    ("method", "kind", "scopes"),
    [
        ("conversations.info", "channels", {"channels:read"}),
        ("conversations.history", "groups", {"groups:history"}),
        ("conversations.open", "im", {"im:write"}),
        ("conversations.create", "channels", {"channels:manage", "channels:write"}),
        ("conversations.invite", "groups", {"groups:write", "groups:write.invites"}),
        ("conversations.join", "groups", {"channels:join"}),
        ("chat.postMessage", "mpim", {"chat:write"}),
        ("views.open", "im", set()),
    ],
)
def test_scopes_follow_the_kind_of_conversation(method: str, kind: str, scopes: set[str]) -> None:
    """A scope for public channels does not open private ones, nor the other way round."""
    assert set(scope_for(method, kind)) == scopes


def test_an_unknown_kind_of_conversation_raises_an_error() -> None:
    """A kind of conversation that does not exist raises instead of asking for no scope."""
    with pytest.raises(ValueError, match="dms"):
        scope_for("conversations.info", "dms")
