"""Every Web API method that the sandbox answers, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slack_sandbox.spec.slack_error import Json
from slack_sandbox.web_api import (
    agents,
    bookmarks,
    chat,
    conversations,
    files,
    marks,
    oauth,
    orgs,
    scheduled,
    streams,
    unfurls,
    unsupported,
    usergroups,
    users,
    views,
)
from slack_sandbox.web_api.arguments import Args
from slack_sandbox.workspace.state import World

Method = Callable[[World, Args], Json]
METHODS: Mapping[str, Method] = {
    **agents.METHODS,
    **bookmarks.METHODS,
    **chat.METHODS,
    **conversations.METHODS,
    **users.METHODS,
    **unsupported.METHODS,
    **files.METHODS,
    **marks.METHODS,
    **oauth.METHODS,
    **orgs.METHODS,
    **scheduled.METHODS,
    **streams.METHODS,
    **unfurls.METHODS,
    **usergroups.METHODS,
    **views.METHODS,
}
