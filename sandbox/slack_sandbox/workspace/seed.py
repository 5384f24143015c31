"""What a new workspace holds, and the small shop that is used unless something else is given."""

from __future__ import annotations

from dataclasses import dataclass, field

from slack_sandbox.workspace.people import (
    BOT_USER,
    ENTERPRISE,
    OTHER_TEAM,
    TEAM,
    TEAM_NAMES,
    Channel,
    Group,
    Person,
)


@dataclass(slots=True)
class Seed:
    """What a new workspace holds."""

    people: list[Person]
    channels: list[Channel]
    groups: list[Group]
    # id -> name and domain
    teams: dict[str, tuple[str, str]] = field(default_factory=lambda: dict(TEAM_NAMES))
    team: str = TEAM  # id of the workspace
    enterprise: tuple[str, str] | None = None  # id and name of its org; None: it is in none

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


def default_seeds(workspaces: int, org: int = 0, *, same_ids: bool = False) -> list[Seed]:
    """Return the small shop in that many workspaces, the first `org` of them in one org."""
    first = default_seed()
    if org:
        first.enterprise = ENTERPRISE
        for person in first.people:
            person.grid_teams = (first.team,) if person.team_id == first.team else ()
    more = range(2, workspaces + 1)
    sisters = {number: first if number <= org else None for number in more}
    return [first, *(_another_seed(n, same_ids=same_ids, sister=sisters[n]) for n in more)]


def workspace_mark(number: int) -> str:
    """The letters that the ids of the nth workspace end in: B, C … Z, AA, AB …"""
    mark = ""
    while number:
        number, letter = divmod(number - 1, 26)
        mark = chr(65 + letter) + mark
    return mark


def _another_seed(number: int, *, same_ids: bool, sister: Seed | None) -> Seed:
    """The small shop once more, as the second, third … workspace of a sandbox.

    Ids end in B, C … unless they are to be the same. `sister` is the seed of a workspace in the
    same org: ana and cleo are in both, with one id. eve of the other company is in the first alone.
    """
    mark = "" if same_ids else workspace_mark(number)
    made, team = default_seed(), f"{TEAM}{workspace_mark(number)}"
    name, domain = ("Sandbox Tea", "sandbox-tea") if number == 2 else (f"Sandbox {number}",) * 2
    people = [each for each in made.people if each.team_id == TEAM]
    ids = {BOT_USER: ""} | {each.id: each.id + mark for each in people}
    for each in people:
        each.team_id, each.email, each.id = team, "", ids[each.id]
    if sister:
        both = [each for each in sister.people if each.name in ("ana", "cleo")]
        ids |= {each.id: each.id for each in both}
        people = [*both, *(each for each in people if each.name not in ("ana", "cleo"))]
        for each in people:
            each.grid_teams = (*each.grid_teams, team)
    channels = [each for each in made.channels if not each.is_ext_shared]
    for channel in channels:
        channel.id += mark
        channel.creator = ids[channel.creator]
        channel.members = [ids[user] for user in channel.members if ids.get(user)]
    for group in made.groups:
        group.id, group.users = group.id + mark, [ids[user] for user in group.users]
        group.created_by = group.updated_by = ids[group.created_by]
    teams = {team: (name, domain.replace(" ", "-").lower())}
    return Seed(people, channels, made.groups, teams, team, sister.enterprise if sister else None)
