"""Using the app of a workspace that a process for many workspaces serves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bot.app import App
from bot.workspaces.host import WorkspaceHost
from bot.workspaces.hosted import NotSettledError


@contextmanager
def use_app_once_settled(host: WorkspaceHost, workspace: str, attempts: int = 20) -> Iterator[App]:
    """Yield a workspace's app, however long it takes to start; each attempt waits over a second."""
    with ExitStack() as stack:
        for left in reversed(range(attempts)):
            try:
                app = stack.enter_context(host.use_app(workspace))
                break
            except NotSettledError:
                if not left:
                    raise
        yield app
