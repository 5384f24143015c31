"""What somebody new is told: the greeting, and what the bot can do. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bot.cards.text import escape, visible

_EFFECTS = {
    "read": "🔎 *These look something up*",
    "write": "✋ *These change something*",
    "destructive": "⚠️ *These cannot be undone*",
    "": "⚠️ *These change something, and it is not known whether they can be undone*",
}


FORM = "`/approvals request`"
DECIDED = (
    "I look things up right away. Whatever changes something I first show to the people who may "
    "decide, and it happens only once they have approved it."
)


def greeting(
    bot_user: str, tools: Sequence[tuple[str, str]] = (), *, has_model: bool = True
) -> str:
    """Greet a person, in mrkdwn: what this is, that it is an AI, and how to begin.

    Without a model there is nobody to write to, and people ask with forms.
    """
    if not has_model:
        return (
            f"👋 Hello, I am <@{bot_user}>. Ask for what you need with a form: {FORM}, in any "
            f"channel. {DECIDED}"
        )
    lines = [
        f"👋 Hello, I am <@{bot_user}>, an AI assistant. Tell me what you need, here or by "
        "mentioning me in a channel.",
        DECIDED,
    ]
    if tools:
        lines.append(f"I can, for example: {_some(tools)}. Say `help` for all of it.")
    lines.append("I can be wrong, so please check what matters.")
    return "\n".join(lines)


def _some(tools: Sequence[tuple[str, str]]) -> str:
    names = [_name(title) for title, _ in tools[:4]]
    return ", ".join(name[:1].lower() + name[1:] for name in names)


def _name(title: str) -> str:
    return escape(visible(" ".join(title.split())))


def help_text(tools: Sequence[tuple[str, str]], *, has_model: bool = True) -> str:
    """List all that can be asked for, by effect class, in mrkdwn.

    `tools`: (title, read | write | destructive, or "" where nobody has said).
    """
    lines = [
        "I am an AI assistant. Ask in your own words; mention me in a channel, or write to me "
        f"directly. Or fill in a form: {FORM}."
        if has_model
        else f"Ask with a form: {FORM}."
    ]
    for effect, heading in _EFFECTS.items():
        if titles := [_name(title) for title, does in tools if does == effect]:
            lines += ["", heading, *(f"• {title}" for title in titles)]
    end = (
        "Say `cancel` in our thread to stop a request. People decide by the buttons only: a “yes” "
        "in a message approves nothing. `/approvals` shows what waits and what was decided, and "
        "has somebody decide for you."
    )
    return "\n".join([*lines, "", end])
