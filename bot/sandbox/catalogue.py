"""Every Web API method that the sandbox answers, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bot.sandbox import (
    agents,
    bookmarks,
    chat,
    conversations,
    directory,
    elsewhere,
    files,
    marks,
    oauth,
    scheduled,
    streams,
    unfurls,
    usergroups,
    views,
)
from bot.sandbox.state import World
from bot.sandbox.wire import Args, Json

Method = Callable[[World, Args], Json]
METHODS: Mapping[str, Method] = {
    **agents.METHODS,
    **bookmarks.METHODS,
    **chat.METHODS,
    **conversations.METHODS,
    **directory.METHODS,
    **elsewhere.METHODS,
    **files.METHODS,
    **marks.METHODS,
    **oauth.METHODS,
    **scheduled.METHODS,
    **streams.METHODS,
    **unfurls.METHODS,
    **usergroups.METHODS,
    **views.METHODS,
}
