"""What may be remembered, in the words of a menu.

Pure: plain text out, hidden characters made visible.
"""

from __future__ import annotations

from collections.abc import Mapping

from bot.durations import in_words
from bot.messages.visible import visible
from bot.policy.gates import Offer


def offer(what: Offer, titles: Mapping[str, str]) -> str:
    """An offer to remember, as plain text for a menu: "the same amount and account, in this thread,
    1 d, 10 times".
    """
    same = "exactly this" if what.fields is None else "anything"
    if what.fields:
        same = "the same " + " and ".join(visible(titles.get(name, name)) for name in what.fields)
    where = "in this thread" if what.where == "thread" else "everywhere"
    return f"{same}, {where}, for {in_words(what.lasts)}, {what.uses} times"
