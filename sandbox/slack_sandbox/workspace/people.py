"""The people, channels and user groups of the local Slack.

Plain data; it sends nothing and checks no permissions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from slack_sandbox.spec.slack_error import Json

TEAM = "T0SANDBOX"
OTHER_TEAM = "T0OTHERCO"
ENTERPRISE = ("E0SANDBOX", "Sandbox Org")  # id and name of the org, if there is one
TEAM_NAMES = {TEAM: ("Sandbox Coffee", "sandbox"), OTHER_TEAM: ("Other Company", "otherco")}
BOT_USER = "UBOT00001"  # of the first app, which the default workspace has in its channels
MANAGER_FIELD = "Xf0MANAGER"  # a custom profile field that names people
PROFILE_FIELDS = {MANAGER_FIELD: "Manager"}  # its label, by id
DAY = 86_400  # seconds
EPOCH = 1_700_000_000  # when the workspace was made, Unix seconds


@dataclass(slots=True)
class Person:
    """A human member; `name` is the short name that tests and the page use."""

    name: str
    id: str
    real_name: str
    team_id: str = TEAM
    is_restricted: bool = False
    is_ultra_restricted: bool = False
    deleted: bool = False
    is_admin: bool = False
    tz: str = "Europe/Berlin"
    tz_offset: int = 3600  # seconds east of UTC
    updated: int = EPOCH
    email: str = ""
    # their workspaces in an Enterprise Grid; the user object names these instead of one team
    grid_teams: tuple[str, ...] = ()
    acts_from: str = ""  # the workspace whose client they use; "" for their own
    status_emoji: str = ""  # with its colons
    status_text: str = ""
    status_expiration: int = 0  # Unix seconds; 0: never
    fields: dict[str, str] = field(default_factory=dict)  # of PROFILE_FIELDS, by id
    paused: tuple[int, int] | None = None  # start and end of paused notifications, Unix seconds
    quiet_hours: tuple[int, int] | None = None  # daily, in their time zone, as minutes of the day

    def lapse(self, now: float) -> None:
        """End a status whose time is over."""
        if 0 < self.status_expiration <= now:
            self.status_emoji, self.status_text, self.status_expiration = "", "", 0

    def do_not_disturb(self, now: float) -> tuple[int, int] | None:
        """Return from and until when they get no notifications, now or next; None for never."""
        if self.paused and self.paused[1] > now:
            return self.paused
        if self.quiet_hours is None:
            return None
        begins, ends = (60 * minute for minute in self.quiet_hours)
        long = (ends - begins) % DAY
        midnight = int(now + self.tz_offset) // DAY * DAY - self.tz_offset
        starts = (midnight + day * DAY + begins for day in (-1, 0, 1))
        return next((start, start + long) for start in starts if start + long > now)


@dataclass(slots=True)
class Channel:
    """A conversation: public or private channel, DM with an app, or group DM."""

    id: str
    name: str
    kind: Literal["channel", "group", "im", "mpim"] = "channel"
    members: list[str] = field(default_factory=list)  # user ids, in the order of joining
    is_ext_shared: bool = False
    teams: tuple[str, ...] = ()  # workspaces of this sandbox that share it, host first
    is_archived: bool = False
    topic: str = ""
    purpose: str = ""
    topic_set: tuple[str, int] = ("", 0)  # by which user id, and when (Unix seconds)
    purpose_set: tuple[str, int] = ("", 0)
    previous_names: list[str] = field(default_factory=list)  # newest first
    is_open: bool = True  # False: a DM that its app has closed
    creator: str = ""
    created: int = EPOCH
    # app id -> latest mention of the app while it was not a member
    missed_mentions: dict[str, Json] = field(default_factory=dict)

    def connected(self, team: str) -> list[str]:
        """Return the other workspaces that `team` shares it with, or a made-up company."""
        others = [each for each in self.teams if each != team]
        return others or ([OTHER_TEAM] if self.is_ext_shared else [])

    @property
    def label(self) -> str:
        """The name Slack puts into interaction payloads, which hides private names."""
        return {
            "channel": self.name,
            "group": "privategroup",
            "im": "directmessage",
            "mpim": "mpdm",
        }[self.kind]


@dataclass(slots=True)
class Group:
    """A user group: @handle stands for its members."""

    id: str
    handle: str
    name: str
    users: list[str] = field(default_factory=list)
    updated: int = EPOCH
    created: int = EPOCH
    disabled: int = 0  # since when it is disabled (Unix seconds); 0: it is not
    description: str = ""
    channels: list[str] = field(default_factory=list)  # channel ids; its members should join them
    created_by: str = "UANA00001"
    updated_by: str = "UANA00001"
