"""The one check, where calls are proposed and where they are edited, that what people are shown is
all of what would run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bot.messages.forms.completeness import unshown
from bot.messages.forms.values import values
from bot.messages.review import shows_all
from bot.messages.text import plain, visible
from bot.messages.views import CallView
from bot.tools import Tool
from bot.tools.arguments import load_arguments, readable_arguments
from storage.states import CallStatus

TOO_MUCH = (
    "There is more in it than Slack can show to those who decide, and what they cannot see in full "
    "is not done. Make it smaller, or divide it."
)


def lacking(
    tool: Tool[Any],
    arguments: str,
    names: Mapping[str, str],
    *,
    preview: str = "",
    reason: str = "",
    before: str | None = None,
) -> str:
    """Return why those who decide could not be shown all of a call, in a sentence; "" if they can.

    `arguments`: the JSON that would run, exactly as it is digested; `before`: the same until an
    edit. `names`: of the ids in it. `preview`, `reason`: what else has to be seen.
    """
    as_read = readable_arguments(tool, arguments, names)
    old = readable_arguments(tool, before, names) if before is not None else None
    rows = values(tool, as_read)
    runs: dict[str, Any] = json.loads(arguments)
    missing = unshown(runs, as_read, rows, tool.secret_paths(runs))
    if missing is not None:
        where = plain(visible(" › ".join(map(str, missing))), 200) or "its arguments"
        return f"People could not be shown all of what would run: {where}. So nobody is asked."
    view = CallView(
        id="",
        revision=1,
        title=tool.title,
        effect=tool.effect_sentence(load_arguments(tool, arguments), names),
        does=tool.does,
        status=CallStatus.PENDING,
        values=values(tool, as_read, old) if old is not None else rows,
        digest="",
        preview=preview,
        agent_reason=reason,
    )
    return "" if shows_all(view) else TOO_MUCH
