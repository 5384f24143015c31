"""The demo: a local Slack with its page, a local planner, the demo shop and the real bot.

Every start begins with an empty database; the last demo's is kept until then. Nothing leaves the
machine unless OPENAI_API_KEY is set: then the real model plans.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from bot.app import App, build
from bot.config.connection_settings import DEFAULT_ADDRESS
from bot.config.environment import remove_variables_slack_misreads
from bot.config.settings import Settings
from bot.config.startup import read_policy
from bot.demo import first_days
from bot.demo.model_server import StandInPlanner
from bot.tools.web_shop import Shop
from countersign.cli.console import print_line, print_lines
from slack_sandbox.ports import any_free, first_free, free_port
from slack_sandbox.server import Sandbox
from slack_sandbox.setup.manifests import read_manifest
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.workspace.clock import ShiftedClock
from slack_sandbox.workspace.records import Message
from slack_sandbox.workspace.state import World
from storage.backend import socket_path
from storage.sqlite import AlreadyRunningError, lock_database

# The guide for first-time visitors: what this is, what to ask for, and who can decide each card.

WAITING_CARD_ACTION_IDS = ("approve", "review")  # a card has these buttons only while it waits
SUGGESTED_PROMPTS = [
    ("Refund part of an order", "refund 15 EUR of order 1042, the mug was chipped"),
    ("Look up an order", "what is the status of order 1042?"),
    ("Cancel an order", "cancel order 1043, the customer changed her mind"),
]
WELCOME_TEXT = (
    "{0} does what people ask it for in Slack, but whatever changes something waits on a card "
    "until somebody else approves it. This Slack and its shop are made up, so try anything."
)
ROLE_BY_PERSON = {  # by the demo's policy
    "ben": "asks for things.",
    "ana": "may approve, edit or reject what others ask for.",
    "cleo": "may, too; only Cleo decides cancellations, in #finance-approvals, with a passkey.",
    "dan": "asks for things, too.",
}


def build_visitor_guide(world: World, since: float = 0.0, *, own_policy: bool = False) -> Json:
    """Return the guide of the demo's page: prompts, people, and cards with who may decide them.

    The cards are those posted after `since` that wait, the oldest first. `own_policy`: the
    visitor's own policy is in force, so the guide describes people by their groups only.
    """
    name, waiting = world.app.title, _list_waiting_cards(world)
    people = (
        {each: _describe_groups(world, each) for each in ROLE_BY_PERSON}
        if own_policy
        else ROLE_BY_PERSON
    )
    return {
        "title": f"Welcome to {name}",
        "text": WELCOME_TEXT.format(name),
        "prompts": [
            {"title": title, "message": f"@{name} {text}"} for title, text in SUGGESTED_PROMPTS
        ],
        "people": [{"id": world.people[each].id, "text": text} for each, text in people.items()],
        "waiting": [_build_waiting_card_entry(world, m) for m in waiting if float(m.ts) > since],
    }


def _describe_groups(world: World, name: str) -> str:
    """Return a sentence's end with a person's user groups; without any, the demo's own text."""
    member = world.people[name].id
    groups = [f"@{each.handle}" for each in world.groups.values() if member in each.users]
    return f"is in {' and '.join(groups)}." if groups else ROLE_BY_PERSON[name]


def _list_waiting_cards(world: World) -> list[Message]:
    stored = [
        m
        for channel in world.messages.values()
        for m in channel.values()
        if m.app_id == world.app.id
    ]
    return sorted((m for m in stored if not m.only_for and _is_waiting_card(m)), key=lambda m: m.ts)


def _is_waiting_card(message: Message) -> bool:
    actions = [block for block in message.body.get("blocks", []) if block["type"] == "actions"]
    return any(
        element.get("action_id") in WAITING_CARD_ACTION_IDS
        for block in actions
        for element in block["elements"]
    )


def _build_waiting_card_entry(world: World, message: Message) -> Json:
    words = _extract_context_text(message.body["blocks"])
    barred = set(re.findall(r"(?:Asked|Edited) by <@(\w+)>", words))
    approvers = re.search(r"Approvers: (.*)", words)
    may = _list_mentioned_users(world, approvers[1].split("  ·  ")[0] if approvers else "")
    at = {"channel": message.channel, "ts": message.ts, "thread_ts": message.body.get("thread_ts")}
    dates = map(int, re.findall(r"<!date\^(\d+)\^", words))
    at["place"] = f"#{world.channels[message.channel].name}"
    at["due"] = min((due for due in dates if due > world.now()), default=None)
    return at | {"deciders": [user for user in may if user not in barred]}


def _extract_context_text(blocks: list[Json]) -> str:
    lines: list[str] = []
    for block in blocks:
        elements: list[Any] = block["elements"] if block["type"] == "context" else []
        lines += [str(element.get("text", "")) for element in elements]
    return "\n".join(lines)


def _list_mentioned_users(world: World, text: str) -> list[str]:
    """Return the ids of the people that the mentions in `text` stand for, each once, in order.

    Mentions can be of users, groups and channels.
    """
    user_ids: list[str] = []
    for kind, name in re.findall(r"<(@|!subteam\^|#)(\w+)", text):
        if kind == "@":
            user_ids.append(name)
        elif kind == "#" and name in world.channels:
            user_ids += world.channels[name].members
        else:
            user_ids += next(
                (group.users for group in world.groups.values() if group.id == name), []
            )
    return [
        user
        for user in dict.fromkeys(user_ids)
        if user in world.by_id and not world.by_id[user].deleted
    ]


MANIFEST_PATH = Path(__file__).parents[1] / "manifest.yml"
DEMO_POLICY_PATH = Path(__file__).with_name("demo_policy.toml")
URL_FILE_NAME = "demo.url"  # holds the address of the demo that runs in a folder
DOTENV = ".env"  # settings for commands that are typed in the demo's folder
STATE_FILE_PATTERNS = (
    *("countersign.db*", "shop.db*", "databases.toml", "demo.log"),
    *(URL_FILE_NAME, DOTENV, first_days.VARIABLES_FILE_NAME),
)
EXAMPLE_AGENT_PATH = "docs/terminal_agent.py"  # exists in a copy of the repository only
EXAMPLE_ASK_COMMAND = (
    "ask deploy version=2.8.0 env=prod --effect 'Deploy {version} to {env}' --channel '#support'"
)
DEFAULT_OPERATOR_ID = "UANA00001"  # Ana, who asks and decides at a terminal beside the demo
# prefixes of the bot's settings, which the demo sets itself
SETTING_PREFIXES = ("COUNTERSIGN_", "SLACK_", "OPENAI_", "DATABASE_URL")
DATABASES_TEMPLATE = """\
[[database]]
name = "shop"
url = "sqlite:///{path}"
about = "the shop's products, orders and payments"
"""


def run_demo(folder: Path, port: int | None, environ: Mapping[str, str]) -> None:
    """Run the demo until Ctrl-C, whose KeyboardInterrupt is passed on.

    What earlier demos left in `folder` is deleted.

    Raises PortTakenError if the port is taken, AlreadyRunningError if a demo runs in this
    folder, SettingsError if OPENAI_BASE_URL or OPENAI_MODEL is wrong.
    """
    with ExitStack() as stack:
        demo = start_demo(stack, folder, port, environ)
        mind = demo.settings.openai_model if demo.planner is None else "the offline stand-in"
        (folder / URL_FILE_NAME).write_text(demo.sandbox.url)
        print_line(f"Countersign demo: {demo.sandbox.url}")
        print_line(
            "As Ben, ask in #support: "
            f"@countersign refund 15 EUR of order 1042, the mug was chipped. ({mind} plans)"
        )
        print_line("As Ana, decide the card that appears, or open Home. Ctrl-C ends the demo.")
        if demo.settings.policy_path != DEMO_POLICY_PATH:
            print_line(f"Who decides is up to {demo.settings.policy_path}, so there is no history.")
        command = _format_command(folder)
        print_line(f"At another terminal, be Ana: cd {folder} && {command} chat (or pending)")
        print_lines(_program_instruction_lines(demo, folder))
        demo.app.wait()


def _format_command(folder: Path) -> str:
    """Return the shell command that runs this program from `folder`, at another terminal."""
    program = Path(sys.argv[0])
    if program.name != "countersign":
        return f"{shlex.quote(sys.executable)} -m bot"
    if shutil.which(program.name) == str(program):
        return program.name
    return shlex.quote(os.path.relpath(program, folder))


def _program_instruction_lines(demo: Demo, folder: Path) -> Iterator[str]:
    """Yield lines that say how to send a program's request from another terminal."""
    if demo.missing_for_programs:
        yield f"For programs that ask, too: {demo.missing_for_programs}"
        return
    yield "Programs ask, too; then decide as Ana. At another terminal, a job:"
    variables, command = folder / first_days.VARIABLES_FILE_NAME, _format_command(Path())
    yield f"    . {variables} && {command} {EXAMPLE_ASK_COMMAND}"
    if Path(EXAMPLE_AGENT_PATH).exists():
        yield "or an agent of another framework, Pydantic AI, which is installed for it: make agent"


@dataclass(frozen=True, slots=True)
class Demo:
    """The parts of a running demo."""

    sandbox: Sandbox
    planner: StandInPlanner | None  # None: a real model plans
    settings: Settings
    app: App
    missing_for_programs: str = ""  # what programs lack to ask; "" if they can


def start_demo(
    stack: ExitStack,
    folder: Path,
    port: int | None,
    environ: Mapping[str, str],
    stand_in: type[StandInPlanner] = StandInPlanner,
) -> Demo:
    """Start all parts of the demo, which `stack` will stop; raises what `run_demo` raises.

    With the planner that stands in for a model and the demo's policy and database, two days of
    history are played first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    delete_demo_files(folder)
    logging.basicConfig(
        filename=folder / "demo.log", level=logging.INFO, format="%(asctime)s %(name)s %(message)s"
    )
    Shop(folder / "shop.db").create_database()
    planner = None if environ.get("OPENAI_API_KEY") else stack.enter_context(stand_in())
    own_policy = find_policy_file(environ) != DEMO_POLICY_PATH
    # only the stand-in plays the past, and it fits only the demo's own policy and database
    has_past = planner is not None and not own_policy and not environ.get("COUNTERSIGN_DATABASES")
    clock = ShiftedClock(first_days.get_history_start() if has_past else None)
    sandbox = stack.enter_context(
        Sandbox(read_manifest(MANIFEST_PATH), clock, first_days.build_workspace(), free_port(port))
    )
    sandbox.world.title = f"{sandbox.world.app.title} demo"
    settings = write_demo_settings(folder, sandbox, planner, environ, choose_http_address(port))
    remove_variables_slack_misreads(os.environ, settings.slack_api_url)
    app = build(settings, sandbox.clock, read_policy(settings.policy_path))
    stack.callback(app.stop)
    app.start()
    _offer_software_keys(app, sandbox)
    record, lacking = settings.database_path, _describe_missing_requirement(app, settings)
    web = None if lacking else app.endpoints.web
    if has_past:
        past = [
            *first_days.PAST_REQUESTS,
            *(first_days.build_past_program_requests(web.url, record) if web else ()),
        ]
        first_days.play_history(sandbox, partial(datetime.now, UTC), app.wait_until_idle, past)
    sandbox.world.guide = partial(
        build_visitor_guide, since=sandbox.world.now(), own_policy=own_policy
    )
    if web:
        model = {"OPENAI_BASE_URL": planner.url, "OPENAI_API_KEY": "offline"} if planner else {}
        first_days.write_terminal_shell_file(folder, record, {"COUNTERSIGN_URL": web.url, **model})
    return Demo(sandbox, planner, settings, app, lacking)


def _offer_software_keys(app: App, sandbox: Sandbox) -> None:
    """Give the demo's people passkeys in software, where its policy asks for signatures."""
    core, web = app.core, app.endpoints.web
    pages = web.signing if web else None
    if pages and any(each.wants_signature for each in core.policy.policy.asks()):
        from bot.demo.software_keys import SoftwareKeys  # here, since only an extra brings it

        keys = SoftwareKeys(pages.address)
        keys.add_passkeys(core, [sandbox.world.people[each].id for each in ROLE_BY_PERSON])
        pages.software = keys


def find_policy_file(environ: Mapping[str, str]) -> Path:
    """Return the policy file: COUNTERSIGN_POLICY's, else `policy.toml` here, else the demo's."""
    here = Path("policy.toml")
    usual = here if here.exists() else DEMO_POLICY_PATH
    return Path(environ.get("COUNTERSIGN_POLICY") or usual).absolute()


def _describe_missing_requirement(app: App, settings: Settings) -> str:
    """Return what is missing before programs can send requests to the demo; "" if nothing is."""
    if app.endpoints.web is None:
        return "pip install 'countersign-bot[serve]'"
    if not socket_path(settings.database_path).exists():
        return "run it in a folder with a shorter path (a socket in it has to have a name)"
    return ""


def choose_http_address(port: int | None) -> str:
    """Return the HTTP address for programs as a setting; "" if the needed package is missing.

    With `port` 0 any free port is taken, else the usual one or one near it.
    """
    try:
        import_module("bot.http.http_side")
    except ModuleNotFoundError:
        return ""
    free = any_free() if port == 0 else first_free(DEFAULT_ADDRESS.port)
    return f"{DEFAULT_ADDRESS.host}:{free}"


def write_demo_settings(
    folder: Path,
    sandbox: Sandbox,
    planner: StandInPlanner | None,
    environ: Mapping[str, str],
    http: str,
) -> Settings:
    """Return settings for the local Slack and the model or its stand-in; also write them to files.

    Commands typed in `folder` read the files. Without a `planner`, the real model that `environ`
    names is used. `http`: the address where programs ask.
    """
    folder = folder.absolute()
    databases, servers = environ.get("COUNTERSIGN_DATABASES"), environ.get("COUNTERSIGN_SERVERS")
    if not databases:
        databases = str(folder / "databases.toml")
        Path(databases).write_text(DATABASES_TEMPLATE.format(path=folder / "shop.db"), "utf-8")
    link_tool_modules(folder, environ.get("COUNTERSIGN_TOOLS", ""))
    values = {
        "SLACK_BOT_TOKEN": sandbox.bot_token,
        "SLACK_APP_TOKEN": sandbox.app_token,
        "SLACK_API_URL": sandbox.api_url,
        "OPENAI_API_KEY": "offline" if planner else environ.get("OPENAI_API_KEY", ""),
        "OPENAI_BASE_URL": planner.url if planner else environ.get("OPENAI_BASE_URL", ""),
        "OPENAI_MODEL": environ.get("OPENAI_MODEL", ""),
        "OPENAI_API": environ.get("OPENAI_API", ""),
        "DATABASE_URL": f"sqlite:///{folder / 'countersign.db'}",
        "COUNTERSIGN_POLICY": str(find_policy_file(environ)),
        "COUNTERSIGN_SHOP": str(folder / "shop.db"),
        "COUNTERSIGN_DATABASES": str(Path(databases).absolute()),
        "COUNTERSIGN_TOOLS": environ.get("COUNTERSIGN_TOOLS", ""),
        "COUNTERSIGN_HTTP": http,
        "COUNTERSIGN_URL": f"http://localhost:{http.rpartition(':')[2]}" if http else "",
        "COUNTERSIGN_SERVERS": str(Path(servers).absolute()) if servers else "",
        "COUNTERSIGN_OPERATOR": environ.get("COUNTERSIGN_OPERATOR", DEFAULT_OPERATOR_ID),
    }
    saved_values = dict(values)
    if not planner:  # the user's own key; no command other than the bot needs it
        del saved_values["OPENAI_API_KEY"]
    (folder / DOTENV).write_text(
        "".join(f"{name}='{saved_values[name]}'\n" for name in saved_values), "utf-8"
    )
    # those that the files of databases and servers name
    others = {
        name: value for name, value in environ.items() if not name.startswith(SETTING_PREFIXES)
    }
    return Settings.load(others | values)


def link_tool_modules(folder: Path, modules: str) -> None:
    """Link the tool modules of the working directory into `folder`, for commands typed there."""
    for name in filter(None, (each.strip().partition(".")[0] for each in modules.split(","))):
        for file in (Path(f"{name}.py"), Path(name)):
            link = folder / file
            if link.is_symlink():
                link.unlink()
            if file.exists() and not link.exists():
                link.symlink_to(file.absolute())


def delete_demo_files(folder: Path) -> None:
    """Delete the files that demos leave in `folder`, and nothing else.

    Raises AlreadyRunningError, with the address of its page, while a demo runs there.
    """
    try:
        lock = lock_database(folder / "countersign.db")
    except AlreadyRunningError as error:
        page = folder / URL_FILE_NAME
        where = f"; its page is {page.read_text()}" if page.exists() else ""
        raise AlreadyRunningError(f"{error}{where}") from None
    with closing(lock):
        for path in (path for pattern in STATE_FILE_PATTERNS for path in folder.glob(pattern)):
            if path.suffix != ".lock":
                path.unlink()
