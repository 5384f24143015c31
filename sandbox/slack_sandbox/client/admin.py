"""Acts of an administrator or the workspace: members, groups, channels, payloads sent twice.

The half of `Sandbox` that needs no server. Every method may be called from any thread.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

from slack_sandbox.client import payloads
from slack_sandbox.client.actor import Actor
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.web_api import conversations_admin, oauth, orgs, usergroups
from slack_sandbox.workspace import events, messages
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.people import OTHER_TEAM, Person
from slack_sandbox.workspace.records import Delivery
from slack_sandbox.workspace.state import World


class Admin:
    """Changes to the workspace, each with the events that Slack would send."""

    def __init__(self, world: World) -> None:
        self.world = world

    def deactivate(self, name: str) -> None:
        """Deactivate a person's account. Memberships stay: only `deleted` shows it."""
        with self.world.lock:
            person = self.world.people[name]
            person.deleted, person.updated = True, int(self.world.now())
            events.user_changed(self.world, person.id)
            self.world.touch()

    def hire(self, name: str, real_name: str = "") -> str:
        """Add a person to the workspace, in no channel yet; return the user id. Apps get team_join.

        ValueError if the short name is taken.
        """
        with self.world.lock:
            if name in self.world.people:
                raise ValueError(f"there is somebody called {name} already")
            number = len(self.world.people) + 1
            while (user := f"U{number:08}") in self.world.by_id:
                number += 1
            person = Person(name, user, real_name or name.capitalize())
            person.updated = int(self.world.now())
            self.world.people[name] = self.world.by_id[user] = person
            events.user_joined(self.world, user)
            self.world.touch()
            return user

    def set_group(self, handle: str, names: list[str]) -> None:
        """Give a user group other members (short names)."""
        with self.world.lock:
            group = self.world.groups[handle]
            users = [self.world.people[name].id for name in names]
            usergroups.set_members(self.world, group, users)

    def join(self, name: str, channel: str) -> None:
        """A person comes into a channel."""
        with self.world.lock:
            conversations_admin.add_member(
                self.world, self.world.channel(channel), self.world.people[name].id
            )

    def leave(self, name: str, channel: str) -> None:
        """A person leaves a channel."""
        with self.world.lock:
            place, user = self.world.channel(channel), self.world.people[name].id
            messages.post_system(
                self.world, place, user, "channel_leave", f"<@{user}> has left the channel"
            )
            place.members.remove(user)
            events.member_event(self.world, "member_left_channel", user, place)
            self.world.touch()

    def install(self, app: Json | App, channels: Iterable[str] = ()) -> App:
        """Install an app in this workspace without a browser, its bot in these channels.

        `app`: the manifest of one more app, or an app that another workspace has. It gets what its
        manifest asks for.
        """
        with self.world.lock:
            if isinstance(app, App):
                app = oauth.install([self.world], app.id, app.wanted_scopes, org_wide=False)
            else:
                app = self.world.install(app)
            for channel in channels:
                self.world.channel(channel).members.append(app.bot_user)
            self.world.touch()
            return app

    def kick_bot(self, channel: str, app: App | None = None) -> None:
        """Take the app's bot (None: the first app's) out of a channel."""
        with self.world.lock:
            app, place = self.world.own(app), self.world.channel(channel)
            place.members.remove(app.bot_user)
            events.member_event(self.world, "member_left_channel", app.bot_user, place)
            kind = "channel_left" if place.kind == "channel" else "group_left"
            events.emit(
                self.world,
                app,
                {"type": kind, "channel": place.id, "actor_id": place.creator},
                place,
            )
            self.world.touch()

    def invite_bot(self, channel: str, app: App | None = None) -> None:
        """Bring the app's bot (None: the first app's) into a channel."""
        with self.world.lock:
            conversations_admin.add_member(
                self.world, self.world.channel(channel), self.world.own(app).bot_user
            )

    def archive(self, channel: str) -> None:
        """Archive a channel."""
        with self.world.lock:
            place = self.world.channel(channel)
            place.is_archived = True
            kind = "channel_archive" if place.kind == "channel" else "group_archive"
            events.emit_all(
                self.world, {"type": kind, "channel": place.id, "user": place.creator}, place
            )
            self.world.touch()

    def delete_message(self, channel: str, ts: str) -> None:
        """Delete anyone's message; ValueError when there is none."""
        with self.world.lock:
            message = self.world.find(self.world.channel(channel).id, ts)
            if message is None:
                raise ValueError(f"there is no message {ts} in {channel}")
            messages.remove(self.world, message)

    def uninstall(self, app: App | None = None) -> None:
        """Remove the app (None: the first one): its bot token is revoked, and it is told so."""
        with self.world.lock:
            oauth.remove(self.world, self.world.own(app))
            self.world.touch()

    def grant_access(self, app: App | None = None) -> None:
        """Add an org-wide app (None: the first) to this workspace; it gets team_access_granted."""
        with self.world.lock:
            orgs.grant(self.world, self.world.own(app), [self.world.team])

    def revoke_access(self, app: App | None = None) -> None:
        """Take an org-wide app (None: the first) out of this workspace: team_access_revoked."""
        with self.world.lock:
            orgs.grant(self.world, self.world.own(app), [self.world.team], revoke=True)

    def person(self, name: str) -> Actor:
        """Act as that person; KeyError for a name nobody has."""
        return Actor(self.world, name)

    def redeliver(self, delivery: Delivery) -> Delivery:
        """Send the same payload again, as a new delivery that continues the count of attempts."""
        again = Delivery(
            delivery.kind,
            copy.deepcopy(delivery.payload),
            delivery.app,
            delivery.accepts_response_payload,
            attempts=delivery.attempts,
            retry_reason=delivery.retry_reason or ("timeout" if delivery.attempts else ""),
        )
        self.world.send(again)
        return again

    def forge(self, payload: Json, *, accepts: bool = False, app: App | None = None) -> Delivery:
        """Send the app (None: the first) an interactive payload that no real client would."""
        return payloads.deliver(
            self.world, self.world.own(app), copy.deepcopy(payload), accepts=accepts
        )

    def rate_limit(self, app: App | None = None) -> Delivery:
        """Tell the app (None: the first one) that its events are being held back."""
        with self.world.lock:
            return events.rate_limited(self.world, self.world.own(app))

    def share(self, channel: str, team: str = "") -> None:
        """Share a channel with another workspace of the sandbox: by Slack Connect, or in the org.

        Without `team`, it is shared with the other company, which is only made up. The other side's
        people may join from now on. ValueError if both workspaces have the same ids.
        """
        with self.world.lock:
            place, other = self.world.channel(channel), self.world.worlds.get(team)
            if self.world.shared.same_ids and other:
                raise ValueError("workspaces with the same ids cannot share a channel")
            place.is_ext_shared = not (other and other.org_id and other.org_id == self.world.org_id)
            if other:
                place.teams = (*(place.teams or (self.world.team,)), team)
                other.channels[place.id] = place
                other.messages[place.id] = self.world.messages.setdefault(place.id, {})
            sharing = self.world.sharing(place)
            for each in sharing:
                for world in sharing:
                    each.by_id |= world.by_id
            event = {"type": "channel_shared", "channel": place.id}
            for world in sharing:
                joined = team if world is not other else self.world.team
                event["connected_team_id"] = joined or OTHER_TEAM
                for app in world.apps.values():
                    if place.kind == "channel" or app.bot_user in place.members:
                        events.emit(world, app, event, place)
            self.world.touch()

    def change_id(self, channel: str) -> str:
        """Give a channel another id, as may happen when it is shared with another company.

        Returns the new one.
        """
        with self.world.lock:
            place = self.world.channel(channel)
            old, place.id = place.id, self.world.new_id(place.id[0])
            self.world.channels[place.id] = self.world.channels.pop(old)
            moved = self.world.messages.pop(old, {})
            for message in moved.values():
                message.channel = place.id
            self.world.messages[place.id] = moved
            read = {
                user: self.world.last_read.pop((user, old))
                for user, at in list(self.world.last_read)
                if at == old
            }
            self.world.last_read |= {(user, place.id): ts for user, ts in read.items()}
            event = {
                "type": "channel_id_changed",
                "old_channel_id": old,
                "new_channel_id": place.id,
            }
            events.emit_all(self.world, event, place)
            self.world.touch()
            return place.id
