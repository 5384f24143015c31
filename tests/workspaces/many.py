"""A local Slack with any number of workspaces, and the bot installed in all of them."""

from __future__ import annotations

from pydantic import SecretStr

from bot.workspaces.tokens import TokenCipher, Tokens
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.people import BOT_USER, Channel, Group, Person
from slack_sandbox.workspace.seed import Seed
from storage.installations import Installation, InstallationRecord
from tests.local_slack import read_countersign_manifest
from tests.workspaces.builders import AT

TOKEN_KEYS = "one:" + "k" * 32
CHANNELS = 2


def build_team_id(number: int) -> str:
    """Build the id of a workspace."""
    return f"T{number:08}"


def build_seed(number: int) -> Seed:
    """Build the seed of a workspace: Ben, who asks, two approvers, and their channels."""
    mark = f"{number:06}"
    ben = Person("ben", f"UB{mark}", "Ben Okafor", team_id=build_team_id(number))
    crew = [
        Person(f"p{each}", f"UP{mark}{each}", f"Person {each}", team_id=build_team_id(number))
        for each in range(2)
    ]
    ids = [person.id for person in crew]
    bot = [] if number else [BOT_USER]
    channels = [
        Channel(f"C{mark}{n}", f"orders-{n}", members=[ben.id, *ids, *bot]) for n in range(CHANNELS)
    ]
    group = Group(f"S{mark}", "crew", "Crew", ids)
    teams = {build_team_id(number): (f"Workspace {number}", f"workspace-{number}")}
    return Seed([ben, *crew], channels, [group], teams, build_team_id(number))


def build_slack(many: int) -> Sandbox:
    """Build a local Slack with so many workspaces, with the bot in all of them."""
    made = Sandbox(read_countersign_manifest(), seed=[build_seed(number) for number in range(many)])
    first = made.world.app
    for number in range(1, many):
        made.install(first, [f"C{number:06}{n}" for n in range(CHANNELS)], build_team_id(number))
    return made


def install_everywhere(slack: Sandbox, record: InstallationRecord) -> None:
    """Store the installations as the install pages do."""
    cipher = TokenCipher.parse(SecretStr(TOKEN_KEYS))
    for team, world in slack.world.worlds.items():
        sealed = cipher.seal(team, Tokens(SecretStr(world.app.bot_token)))
        row = Installation(
            workspace=team,
            name=team,
            scopes=",".join(sorted(world.app.scopes)),
            bot_user=world.app.bot_user,
            bot_id=world.app.bot_id,
            app_id=world.app.id,
            url=f"{slack.url}/",
            sealed_tokens=sealed,
            token_key=cipher.key_id,
            installed_at=AT,
        )
        record.insert_or_update_installation(row)
