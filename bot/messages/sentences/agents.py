"""Every sentence about who asks beside people: sub-agents, programs. Pure: mrkdwn out."""

from __future__ import annotations

from bot.messages.quoting import said


def errand_line(agent: str, by: str, what: str) -> str:
    """Tell who decides that a sub-agent proposes this, who asked it, and for what."""
    asked = said(by, 60) if by else "the agent"
    return f"🤖 {asked[:1].upper()}{asked[1:]} asked {said(agent, 60)}: “{said(what)}”"


def through(client: str) -> str:
    """Tell by which program somebody asked, behind their name; "" where they did so themselves."""
    return f" through “{said(client, 60)}”" if client else ""


def program_line(client: str) -> str:
    """Tell who decides that a program asks, whose words these are, and who does it then."""
    name = f" “{said(client, 60)}”" if client else ""
    return f"⚙️ The program{name} asks in words of its own, and does it itself once it may."
