"""What the bot says beside cards: answers, the greeting, help, and the message with Retry. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bot.slack.card_parts import Json, actions, button, plain_text, section
from bot.slack.text import escape, neutral_markdown
from bot.slack.visible import visible

_EFFECTS = {
    "read": "🔎 *These look something up*",
    "write": "✋ *These change something*",
    "destructive": "⚠️ *These cannot be undone*",
}


def answer_blocks(text: str, run_id: str, last: bool) -> list[Json]:
    """One part of an answer (see `split_markdown`) as blocks; the last part carries the feedback buttons."""
    blocks: list[Json] = []
    if text.strip():
        blocks.append({"type": "markdown", "text": neutral_markdown(text)})
    return [*blocks, feedback(run_id)] if last else blocks


def feedback(run_id: str) -> Json:
    """Thumbs up and down for a run."""
    return {
        "type": "context_actions",
        "block_id": f"f:{run_id}",
        "elements": [
            {
                "type": "feedback_buttons",
                "action_id": "feedback",
                "positive_button": {"text": plain_text("Good answer"), "value": f"good:{run_id}"},
                "negative_button": {"text": plain_text("Bad answer"), "value": f"bad:{run_id}"},
            }
        ],
    }


def retry_blocks(text: str, run_id: str) -> list[Json]:
    """Why a run cannot go on (mrkdwn from `sentences.gave_up`), with the button that continues it."""
    said: Json = {"type": "mrkdwn", "text": text, "verbatim": True}
    return [section(f"g:{run_id}", said), actions(f"t:{run_id}", [button("retry", "Retry", run_id)])]


def greeting(bot_user: str, tools: Sequence[tuple[str, str]] = ()) -> str:
    """The first words to a person, in mrkdwn: what this is, that it is an AI, and how to begin."""
    lines = [
        f"👋 Hello, I am <@{bot_user}>, an AI assistant. Tell me what you need, here or by mentioning me in a channel.",
        "What only reads I do at once. What changes something I first show to the people who may decide, "
        "and nothing happens until one of them approves.",
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


def help_text(tools: Sequence[tuple[str, str]]) -> str:
    """All that the agent may propose, by effect class, in mrkdwn; `tools`: (title, read | write | destructive)."""
    lines = ["I am an AI assistant. Ask in your own words; mention me in a channel, or write to me directly."]
    for effect, heading in _EFFECTS.items():
        if titles := [_name(title) for title, does in tools if does == effect]:
            lines += ["", heading, *(f"• {title}" for title in titles)]
    end = "Say `cancel` in our thread to stop a request. Only buttons decide: words like “yes” approve nothing."
    return "\n".join([*lines, "", end])
