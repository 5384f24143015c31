"""The fields that every interactive payload has, and how it is sent to the app."""

from __future__ import annotations

from slack_sandbox.spec.slack_error import Json
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.events import VERIFICATION, team_domain
from slack_sandbox.workspace.records import Delivery
from slack_sandbox.workspace.state import World


def base(world: World, app: App, kind: str, user: str) -> Json:
    """Return the fields that every interactive payload has."""
    person = world.by_id[user]
    team = world.acts_from(person)
    org = world.enterprise
    who = {"id": user, "username": person.name, "name": person.name, "team_id": team}
    return {
        "type": kind,
        "user": who,
        "api_app_id": app.id,
        "token": VERIFICATION,
        # as in Slack's payloads: github.com/slackapi/bolt-python/pull/23
        "team": None if app.is_org_wide else team_domain(world, team),
        "enterprise": {"id": org[0], "name": org[1]} if org else None,
        "is_enterprise_install": app.is_org_wide,
    }


def deliver(world: World, app: App, payload: Json, *, accepts: bool = False) -> Delivery:
    """Send the app any interactive payload, also one that no real client would send."""
    delivery = Delivery("interactive", payload, app, accepts_response_payload=accepts)
    world.send(delivery)
    return delivery
