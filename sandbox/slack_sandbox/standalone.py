"""The local Slack alone, for any app: `countersign sandbox`.

It prints where everything is and waits for Ctrl-C, or for the end of the app that it starts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from slack_sandbox.launch.environment import LaunchError, app_environment
from slack_sandbox.launch.process import run_app
from slack_sandbox.ports import PortTakenError, free_port
from slack_sandbox.server import Sandbox
from slack_sandbox.setup.manifests import ManifestError, full_manifest, read_manifest, unknown
from slack_sandbox.setup.seed_file import SeedApp, SeedError, read_seed
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.seed import Seed, default_seeds

CannotStart = (ManifestError, SeedError, PortTakenError, LaunchError)  # each message is one line


def run(
    port: int | None,
    manifests: Sequence[Path],
    seed: Path | None,
    *,
    workspaces: int,
    org: bool,
    rate_limits: bool,
    unlisted: bool = False,
    command: str | None,
    allowed: Sequence[str],
    say: Callable[[str], object],
    warn: Callable[[str], object],
) -> int:
    """Serve until Ctrl-C, whose KeyboardInterrupt is passed on, or as long as an app runs.

    Port 0 takes any, None the first free one from 8765. `command` starts an app, the first one of
    the workspace, which may reach this machine and the hosts in `allowed`; its exit code is
    returned.

    Raises one of CannotStart. The apps are those of the seed file, then those of `manifests`, whose
    bots come into every public channel; with neither there is one app that may do everything.
    """
    if seed and (workspaces > 1 or org):
        raise SeedError("a seed file describes one workspace: leave --workspaces and --org out")
    seeds, apps = _with_apps(seed) if seed else (default_seeds(workspaces, workspaces * org), [])
    channels = [each for each in seeds[0].channels if each.kind == "channel"]
    public = [each.name for each in channels if not each.is_archived]
    apps += [SeedApp(read_manifest(path), public) for path in manifests]
    apps = apps or [SeedApp(full_manifest(), public)]
    for seeded in apps:
        for warning in unknown(seeded.manifest):
            warn(warning)
    with Sandbox(apps[0].manifest, seed=seeds, port=free_port(port)) as sandbox:
        sandbox.rates.enabled = rate_limits
        populate(sandbox, apps)
        for world in sandbox.world.worlds.values():
            for app in world.apps.values():
                app.is_unlisted = unlisted
        say(f"Local Slack: {sandbox.url}")
        for world in list(sandbox.world.worlds.values())[1:]:
            say(f"{world.teams[world.team][0]}: {sandbox.url}/?team={world.team}")
        for app in sandbox.world.apps.values():
            say("\n".join(["", *environment(sandbox, app)]))
        say("\nCtrl-C ends it; nothing is kept.")
        if command is None:
            threading.Event().wait()
            return 0
        values = variables(sandbox, sandbox.world.app)
        return run_app(command, app_environment(os.environ, values, allowed))


def _with_apps(path: Path) -> tuple[list[Seed], list[SeedApp]]:
    seed, apps = read_seed(path)
    return [seed], apps


def populate(sandbox: Sandbox, apps: Sequence[SeedApp]) -> None:
    """Install the apps after the first, which is there, and give each its channels and secrets."""
    for number, seeded in enumerate(apps):
        app = sandbox.install(seeded.manifest) if number else sandbox.world.app
        with sandbox.world.lock:
            for name in seeded.channels:
                members = sandbox.world.channel(name).members
                if app.bot_user not in members:
                    members.append(app.bot_user)
            for field, secret in seeded.secrets.items():
                setattr(app, field, secret)


def environment(sandbox: Sandbox, app: App) -> list[str]:
    """Return the variables that an app needs, as lines for a shell or a .env file."""
    way = "signed HTTP" if app.over_http else "Socket Mode"
    needed = variables(sandbox, app)
    more = {name: value for name, value in _for_oauth(app).items() if name not in needed}
    return [
        f"# {app.name} ({app.id}), {way}",
        *(f"{name}={value}" for name, value in needed.items()),
        *(f"# {name}={value}" for name, value in more.items()),
    ]


def variables(sandbox: Sandbox, app: App) -> dict[str, str]:
    """The variables that point an app at the sandbox."""
    return {
        "SLACK_API_URL": sandbox.api_url,
        "SLACK_BOT_TOKEN": app.bot_token,
        "SLACK_APP_TOKEN": app.app_token,
        "SLACK_SIGNING_SECRET": app.signing_secret,
        # with a client id, Bolt ignores the bot token
        **(_for_oauth(app) if app.redirect_urls and app.over_http else {}),
    }


def _for_oauth(app: App) -> dict[str, str]:
    return {"SLACK_CLIENT_ID": app.client_id, "SLACK_CLIENT_SECRET": app.client_secret}
