"""Every sentence about who asks beside people: sub-agents, programs, servers. Pure: mrkdwn out."""

from __future__ import annotations

from bot.messages.quoting import said
from storage.states import RunSource


def errand_line(agent: str, by: str, what: str) -> str:
    """Tell who decides that a sub-agent proposes this, who asked it, and for what."""
    asked = said(by, 60) if by else "the agent"
    return f"🤖 {asked[:1].upper()}{asked[1:]} asked {said(agent, 60)}: “{said(what)}”"


def through(client: str) -> str:
    """Tell by which program somebody asked, behind their name; "" where they did so themselves."""
    return f" through “{said(client, 60)}”" if client else ""


def who_asks(source: RunSource, client: str = "", agent: str = "") -> str:
    """Name whoever asks a person: "the agent", "the server depot", "the program “release”".

    `client`: the server's or the program's name; `agent`: a sub-agent's title.
    """
    if source is RunSource.SERVER:
        return f"the server {said(client, 60)}"
    if agent:
        return said(agent, 60)
    if source is RunSource.PROGRAM:
        return f"the program “{said(client, 60)}”" if client else "a program"
    return "the agent"


def asked_without_words(source: RunSource, client: str = "") -> str:
    """Say how a request began in which nobody wrote anything; "" where it began with words."""
    match source:
        case RunSource.FORM:
            return "Asked with a form"
        case RunSource.PROGRAM:
            return f"Asked by {who_asks(source, client)}"
    return ""


def server_line(server: str, effect: str) -> str:
    """Tell who is asked that a server asks, for what, and who is given the answer."""
    return (
        f"🔌 It asks this to go on with: “{said(effect)}”. {said(server, 60)} gets what you answer."
    )


def program_line(client: str) -> str:
    """Tell who decides that a program asks, whose words these are, and who does it then."""
    program = who_asks(RunSource.PROGRAM, client)
    return f"⚙️ Requested by {program}, which runs this once approved."
