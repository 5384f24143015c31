"""The templates of a policy beside the tools there are: each has to fit one of them."""

from __future__ import annotations

from difflib import get_close_matches

from bot.config.startup import StartupError
from bot.messages.requests.form import misfits
from bot.policy.evaluate import Policy
from bot.tools import Registry


def misfitting(policy: Policy, tools: Registry) -> list[str]:
    """Return what is wrong with the templates: file, line, what is wrong, what to do."""
    found = []
    for each in policy.templates:
        tool = tools.get(each.tool)
        if tool is None:
            close = get_close_matches(each.tool, [known.name for known in tools], 1)
            hint = f"; is {close[0]} meant?" if close else ""
            found.append(f"{each.place}: there is no tool {each.tool!r}{hint}")
        else:
            found += [f"{each.place}: {why}; correct it" for why in misfits(tool, each.fixed)]
    return found


def insist(policy: Policy, tools: Registry) -> None:
    """Raise StartupError where a template fits no tool."""
    if problems := misfitting(policy, tools):
        raise StartupError((), problems)
