"""Scopes by kind of conversation: a private channel takes another than a public one."""

from __future__ import annotations

from slack_sandbox.spec.facts import scope_for
from slack_sandbox.spec.slack_error import SlackError
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.people import Channel

FAMILIES = {"channel": "channels", "group": "groups", "im": "im", "mpim": "mpim"}


def allowed(app: App, method: str, kind: str) -> bool:
    """Return whether the app's scopes let it use the method on a conversation of that kind."""
    needed = scope_for(method, FAMILIES[kind])
    return not needed or bool(app.scopes.intersection(needed))


def require(app: App, method: str, channel: Channel) -> None:
    """SlackError(missing_scope) unless the app may use the method on this channel."""
    if not allowed(app, method, channel.kind):
        raise missing(app, scope_for(method, FAMILIES[channel.kind]))


def missing(app: App, needed: tuple[str, ...]) -> SlackError:
    """The refusal for scopes that the manifest does not list."""
    return SlackError(
        "missing_scope", needed=",".join(needed), provided=",".join(sorted(app.scopes))
    )
