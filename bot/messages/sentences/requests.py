"""Every sentence about requests that are made with a form, without the agent. Pure: mrkdwn out."""

from __future__ import annotations

from bot.messages.quoting import MIDWAY, said
from bot.messages.text import mention

COMMAND = "/approvals request"
POLICY = "policy: "  # what the note of a call begins with that policy denies


def asks(person: str, effect: str, client: str = "") -> str:
    """Begin a request in the name of who asks for it, or of the program `client` that does."""
    who = f"“{said(client, 60)}”, for {mention(person)}," if client else mention(person)
    return f"{who} asks: “{said(effect)}”"


def was_done(effect: str, result: str) -> str:
    """Tell the thread that it was done, by what came of it where there is something to say."""
    return f"✅ Done: {said(result if result.strip() else effect)}"


def did_not_work(effect: str, why: str, *, midway: bool = False) -> str:
    """Tell the thread that it did not work, in the tool's words; `midway`: once it had begun."""
    begun = f" {MIDWAY}" if midway else ""
    return f"❌ It did not work: {said(effect, 160)}. “{said(why)}”{begun}"


def not_known(effect: str) -> str:
    """Tell the thread that nobody knows, or says, whether it happened."""
    return f"❓ Nobody knows whether this happened: {said(effect, 160)}. It is not run again."


def handed_on(effect: str) -> str:
    """Tell the thread that a program has it now, and has said no more."""
    return f"📤 Handed over: {said(effect, 160)}. The program that asked has not said how it went."


def no_longer(effect: str, why: str) -> str:
    """Tell the thread that it was approved, or asked, and yet is not done."""
    return f"⚠️ This was not done: {said(effect, 160)}. {said(why)}"


def nobody_asked(why: str) -> str:
    """Tell who asked that nobody was asked, and why."""
    if why.startswith(POLICY):
        return f"⛔ {policy_forbids(why.removeprefix(POLICY))}"
    return f"⛔ I did not ask anybody about this: {said(why)}."


def policy_forbids(reason: str) -> str:
    """Tell who fills in a form that the policy forbids this."""
    return f"The policy does not allow this: {said(reason)}"


def not_there(name: str) -> str:
    """Tell somebody that there is no such thing to ask for."""
    return f"There is nothing called “{said(name, 80)}” that you can ask for. See {COMMAND}."


def nothing_to_ask() -> str:
    """Tell somebody that there is nothing that they may ask for."""
    return "There is nothing that you can ask for with a form here."


def members_only() -> str:
    """Tell a guest, or somebody of another company, that they cannot ask."""
    return "I take requests from full members of this workspace only."


def form_changed() -> str:
    """Tell somebody that what they filled in no longer fits."""
    return f"This form has changed since you opened it, so nothing was asked. See {COMMAND}."


def not_begun(why: str) -> str:
    """Tell somebody why what they filled in was not asked."""
    return f"Your request was not made: {said(why)}"


def nobody_plans() -> str:
    """Tell who sends a plan back that there is no agent to make another one."""
    return "No agent has planned this, so none can plan it anew. Edit it, or reject it and say why."


def no_model(person: str) -> str:
    """Tell who writes to the bot that nobody reads it; a button goes with the sentence."""
    return (
        f"{mention(person)}, there is no agent here that could read this. You can ask for things "
        f"with a form: press Ask, or type {COMMAND}."
    )


def not_yours(requester: str) -> str:
    """Tell somebody that only who asked can ask for the same again."""
    return (
        f"Only {mention(requester)} can ask for this again from here, as it begins with their "
        f"values. You can ask for your own with {COMMAND}."
    )
