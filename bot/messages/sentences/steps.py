"""What a tool does, as Slack shows it while it runs. Pure: plain text out, no markup at all."""

from __future__ import annotations

from bot.messages.text import neutral_markdown, visible


def doing_now(doing: str, title: str, so_far: str = "") -> str:
    """Say behind the bot's name what it does: "is looking up order 1042…".

    `doing` is "" where the tool does not say; then its title stands there. `so_far`: how far it is.
    """
    far = f" ({_bare(so_far)})" if so_far else ""
    return f"is {_bare(doing)}{far}…" if doing else f"is working on it: {_bare(title)}{far}…"


def step_title(doing: str, title: str) -> str:
    """Name a step in a list of them: "Looking up order 1042"."""
    said = _bare(doing or title)
    return said[:1].upper() + said[1:]


def _bare(text: str) -> str:
    """Return one line that mentions nobody and links to nothing."""
    line = " ".join(neutral_markdown(visible(text)).split())
    return line.replace("<", "‹").replace(">", "›")
