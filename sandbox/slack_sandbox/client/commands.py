"""Slash commands: which a person has, their payload, and what the acknowledgement shows.

Called with the world's lock held.
"""

from __future__ import annotations

from collections.abc import Callable

from slack_sandbox.blockkit.text import typed
from slack_sandbox.spec.slack_error import Json, SlackError
from slack_sandbox.web_api import message_parts
from slack_sandbox.web_api.arguments import Args
from slack_sandbox.workspace import messages
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.events import VERIFICATION, team_domain
from slack_sandbox.workspace.messages import Draft
from slack_sandbox.workspace.people import Channel
from slack_sandbox.workspace.records import Delivery
from slack_sandbox.workspace.state import World

SLACKBOT = "USLACKBOT"  # the author of notices from Slack itself
FAILURES = {  # outcome of a delivery -> the error in Slack's notice
    "timeout": "operation_timeout",
    "no_socket": "dispatch_failed",
    "unreachable": "dispatch_failed",
    "http_error": "http_service_error",
}


def available(world: World, user: str) -> dict[str, tuple[App, Json]]:
    """Return the commands that a person can use, by name, each with its app and definition.

    If several apps have a name, the one installed last gets it. {} for people of other companies.
    """
    if not world.is_member(world.by_id[user]):
        return {}
    apps = [
        app
        for app in world.known_apps
        if "commands" in app.scopes and app.installed and not app.revoked
    ]
    return {str(command["command"]): (app, command) for app in apps for command in app.commands}


def notice(world: World, user: str, channel: Channel, text: str, thread_ts: str = "") -> None:
    """Post a message from Slack itself that only this person sees."""
    messages.add(world, Draft(channel, SLACKBOT, text, thread_ts=thread_ts, only_for=user))


def run(
    world: World,
    user: str,
    channel: Channel,
    line: str,
    thread_ts: str,
    lookup: Callable[[str], str | None],
) -> Delivery | str:
    """Send what the person typed, "/name text"; `lookup` finds the token for "@name" and "#name".

    Returns the delivery, or the sentence that Slack showed instead: commands do not work in
    threads, and not every word after a slash is one.
    """
    name, _, text = line.strip().partition(" ")
    found = available(world, user).get(name)
    if found is None or thread_ts:
        refusal = (
            f"{name} is not a valid command."
            if found is None
            else f"{name} is not supported in threads. Sorry!"
        )
        notice(world, user, channel, refusal, thread_ts)
        return refusal
    app, command = found
    text = typed(text.strip(), lookup) if command.get("should_escape") else text.strip()
    delivery = Delivery(
        "slash_commands", _payload(world, app, user, channel, name, text), app, True
    )
    delivery.on_settled = lambda done: _settled(world, done, user, channel)
    world.send(delivery)
    return delivery


def _payload(world: World, app: App, user: str, channel: Channel, name: str, text: str) -> Json:
    person = world.by_id[user]
    team, org = person.acts_from or world.team, world.enterprise
    return {
        "token": VERIFICATION,
        "team_id": team,
        "team_domain": team_domain(world, team)["domain"],
        **({"enterprise_id": org[0], "enterprise_name": org[1]} if org else {}),
        "channel_id": channel.id,
        "channel_name": channel.label,
        "user_id": user,
        "user_name": person.name,
        "command": name,
        "text": text,
        "api_app_id": app.id,
        "is_enterprise_install": str(
            app.is_org_wide
        ).lower(),  # a string, since it is a form field over HTTP
        "response_url": world.new_response_url(app, channel.id, "", user),
        "trigger_id": world.new_trigger(app, user, channel_id=channel.id),
    }


def failure(delivery: Delivery) -> str:
    """Return Slack's message to a person whose command was not acknowledged; "" if it was."""
    if delivery.ok:
        return ""
    return f'{delivery.payload["command"]} failed with the error "{FAILURES[delivery.outcome]}"'


def _settled(world: World, delivery: Delivery, user: str, channel: Channel) -> None:
    if not delivery.ok:
        notice(world, user, channel, failure(delivery))
    elif delivery.ack:
        try:
            _answer(world, delivery, user, channel)
        except SlackError as error:
            notice(
                world,
                user,
                channel,
                f'{delivery.payload["command"]} failed with the error "{error.code}"',
            )


def _answer(world: World, delivery: Delivery, user: str, channel: Channel) -> None:
    """Post the message that came with the acknowledgement, in private unless it says otherwise."""
    args = Args(delivery.ack or {}, delivery.app)
    text, blocks = message_parts.content(args)
    extra = message_parts.extras(args, blocks)
    if not text and not blocks and not extra:
        return
    draft = Draft(channel, delivery.app.bot_user, text or "", blocks or [], extra=extra)
    draft.only_for = "" if args.values.get("response_type") == "in_channel" else user
    messages.add(world, draft)
