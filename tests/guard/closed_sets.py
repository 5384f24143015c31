"""Closed sets are enums: no bare strings for a status, a kind or a verb; one codec for buttons."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.guard.sources import Source

SETS = {"status", "kind", "verb"}
NOT_OURS = (  # files where these words mean something else
    "sandbox/slack_sandbox/",
    "bot/demo/",
    "bot/tools/",  # SQL's statements and tables, the shop's orders
    "bot/policy/condition.py",  # the parser's tokens
    "bot/slack/presence.py",  # Slack's own status line
    "bot/cards/answers.py",  # elements of Slack's rich text
    "bot/cards/field_layout.py",  # Pydantic's kinds of errors
    "storage/migrations/",
)
CODEC = "bot/cards/button_codec.py"
DRAWS_OR_READS_BUTTONS = ("bot/cards/", "bot/approvals/", "bot/runs/", "bot/slack/")
CUTS = {"partition", "rpartition", "split", "rsplit"}


def find_bare_strings(source: Source) -> Iterator[str]:
    """Find statuses, kinds and verbs that are written or compared as bare strings."""
    if not source.path.startswith(("bot/", "storage/")) or source.path.startswith(NOT_OURS):
        return
    for node in source.nodes:
        if isinstance(node, ast.Compare):
            pairs = [(node.left, each) for each in node.comparators]
            pairs += [(each, node.left) for each in node.comparators]
        elif isinstance(node, ast.Assign):
            pairs = [(each, node.value) for each in node.targets if isinstance(each, ast.Attribute)]
        elif isinstance(node, ast.Match):
            pairs = [(node.subject, each) for case in node.cases for each in _values(case.pattern)]
        elif isinstance(node, ast.keyword) and node.arg in SETS and _is_text(node.value):
            yield f"{source}:{node.value.lineno}: {node.arg}= takes a bare string"
            continue
        else:
            continue
        if any(_last_name(named) in SETS and _is_text(value) for named, value in pairs):
            yield f"{source}:{node.lineno}: {ast.unparse(node)[:60]!r} uses a bare string"


def _values(pattern: ast.pattern) -> list[ast.expr]:
    return [each.value for each in ast.walk(pattern) if isinstance(each, ast.MatchValue)]


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.Call(args=[inner]):  # col(Message.status), str(call.status)
            return _last_name(inner)
    return ""


def _is_text(node: ast.expr) -> bool:
    """Whether it is a string that is not empty, or a collection of some."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(_is_text, node.elts))
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != ""


def find_hand_made_button_values(source: Source) -> Iterator[str]:
    """Find button values cut or joined, and literal action ids, outside the codec."""
    if source.path == CODEC or not source.path.startswith(DRAWS_OR_READS_BUTTONS):
        return
    keys = {
        id(node.value)
        for node in source.nodes
        if isinstance(node, ast.Assign) and _last_name(node.targets[0]).endswith("key")
    }
    for node in source.nodes:
        where = f"{source}:{getattr(node, 'lineno', 0)}"
        if _cuts_at_a_colon(node):
            yield f"{where}: cuts a value at a colon; {CODEC} reads them"
        elif _joins_an_id(node) and id(node) not in keys:
            yield f"{where}: puts a value together; {CODEC} writes them"
        elif _names_an_action(node):
            yield f"{where}: a literal action id; {CODEC} names them"


def _cuts_at_a_colon(node: ast.AST) -> bool:
    """Whether it is `value.partition(":")` or the like; keys may be cut anywhere."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
        return False
    first = node.args[0]
    colon = isinstance(first, ast.Constant) and first.value == ":"
    return colon and node.func.attr in CUTS and not _last_name(node.func.value).endswith("key")


def _joins_an_id(node: ast.AST) -> bool:
    """Whether it is an f-string of an id, a colon and more: f"{call.id}:{call.revision}"."""
    match node:
        case ast.JoinedStr(
            values=[ast.FormattedValue(value=first), ast.Constant(value=str(rest)), *_]
        ):
            name = _last_name(first)
            return rest.startswith(":") and name.endswith("id") and name != "block_id"
    return False


def _names_an_action(node: ast.AST) -> bool:
    """Whether it is a literal beside `action_id`, or the first argument of a button or menu."""
    match node:
        case ast.Dict(keys=keys, values=values):
            return any(
                isinstance(key, ast.Constant) and key.value == "action_id" and _is_text(value)
                for key, value in zip(keys, values, strict=True)
            )
        case ast.keyword(arg="action_id", value=value):
            return _is_text(value)
        case ast.Call(func=ast.Name(id="button" | "menu"), args=[first, *_]):
            return _is_text(first)
        case ast.Compare(left=left, comparators=others):
            sides = [left, *others]
            return any(map(_reads_action_id, sides)) and any(map(_is_text, sides))
    return False


def _reads_action_id(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return text.endswith(("action_id", "['action_id']")) or ".get('action_id'" in text
