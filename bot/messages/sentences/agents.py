"""Every sentence about sub-agents. Pure: mrkdwn out."""

from __future__ import annotations

from bot.messages.quoting import said


def errand_line(agent: str, by: str, what: str) -> str:
    """Tell who decides that a sub-agent proposes this, who asked it, and for what."""
    asked = said(by, 60) if by else "the agent"
    return f"🤖 {asked[:1].upper()}{asked[1:]} asked {said(agent, 60)}: “{said(what)}”"
