"""What a new workspace holds, and the small shop that is there when nothing else is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from slack_sandbox.workspace.people import BOT_USER, OTHER_TEAM, TEAM_NAMES, Channel, Group, Person


@dataclass(slots=True)
class Seed:
    """What a new workspace holds."""

    people: list[Person]
    channels: list[Channel]
    groups: list[Group]
    # id -> name and domain
    teams: dict[str, tuple[str, str]] = field(default_factory=lambda: dict(TEAM_NAMES))

    def __post_init__(self) -> None:
        for person in self.people:
            person.email = person.email or f"{person.name}@{self.teams[person.team_id][1]}.example"


def default_seed() -> Seed:
    """The small shop that the demo and most tests play in."""
    people = [
        Person("ana", "UANA00001", "Ana Ruiz", is_admin=True),
        Person("ben", "UBEN00001", "Ben Okafor", tz="Europe/London", tz_offset=0),
        Person("cleo", "UCLEO0001", "Cleo Martin", tz="America/New_York", tz_offset=-18000),
        Person("dan", "UDAN00001", "Dan Weber"),
        Person("gus", "UGUS00001", "Gus Hall", is_restricted=True),
        Person("eve", "UEVE00001", "Eve Stone", team_id=OTHER_TEAM),
        Person("zoe", "UZOE00001", "Zoe Lind", deleted=True),
    ]
    ana, ben, cleo, dan, gus, eve, _ = (p.id for p in people)
    channels = [
        Channel("C0GENERAL", "general", members=[ana, ben, cleo, dan, BOT_USER]),
        Channel("C0SUPPORT", "support", members=[ana, ben, cleo, dan, gus, BOT_USER]),
        Channel("C0FINANCE", "finance-approvals", "group", members=[ana, cleo, BOT_USER]),
        Channel("C0PARTNER", "partners", members=[ana, ben, eve, BOT_USER], is_ext_shared=True),
        Channel("C0RANDOM", "random", members=[ana, ben, cleo, dan]),
    ]
    for channel in channels:
        channel.creator = ana
    groups = [
        Group("S0LEADS", "shop-leads", "Shop leads", [ana, cleo]),
        Group("S0FINANCE", "finance", "Finance", [cleo]),
        Group("S0NOBODY", "nobody", "Nobody"),
    ]
    return Seed(people, channels, groups)
