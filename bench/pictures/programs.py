"""Takes the pictures of calls by programs: a job, a coding agent, and MCP."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from selenium.webdriver.common.keys import Keys

from bench.pictures.camera import MAIN, MODAL, PATIENCE, ROOT, THREAD, Camera, open_camera
from bot.demo.demo import DEMO_POLICY_PATH
from countersign import Countersign, Does, OwnAction

CARD = f"{THREAD} [data-testid=message]:has([data-action-id=approve])"
WAREHOUSE = Path(__file__).with_name("warehouse.py")
SERVERS = f"""
[[server]]
name = "warehouse"
command = {json.dumps(sys.executable)}
args = [{json.dumps(str(WAREHOUSE))}]
"""
DEPLOY = OwnAction(
    "deploy_shop",
    "Deploy the shop",
    "Deploy {version} to {env}",
    Does.WRITE,
    {
        "type": "object",
        "properties": {
            "version": {"type": "string", "title": "Version", "pattern": r"^\d+\.\d+\.\d+$"},
            "env": {"enum": ["staging", "prod"], "title": "Where"},
            "servers": {"type": "integer", "title": "Servers at once", "minimum": 1},
            "tell": {
                "type": "array",
                "title": "Whom to tell",
                "items": {"type": "string", "format": "email"},
            },
        },
        "required": ["version", "env", "servers"],
    },
)
USE = {
    "hook_event_name": "PreToolUse",
    "session_id": "6f1c",
    "tool_use_id": "toolu_01",
    "tool_name": "Bash",
    "tool_input": {
        "command": "kubectl -n shop rollout undo deployment/checkout",
        "description": "Take back the last release of the checkout",
    },
    "cwd": "/home/ben/shop",
}
HOST = """
import os, sys, anyio
from mcp import Client, StdioServerParameters

async def main():
    proxy = ["-m", "bot", "mcp-proxy", "--channel", "#support", "--prefix", "warehouse_", "--"]
    command = [*proxy, sys.executable, sys.argv[1]]
    given = {name: os.environ[name] for name in os.environ}
    async with Client(StdioServerParameters(command=sys.executable, args=command, env=given)) as it:
        await it.call_tool("reserve", {"goods": "mugs", "boxes": 3})

anyio.run(main)
"""


def take_programs(theme: str, which: Sequence[str]) -> None:
    """Take the pictures of these names, each in a demo of its own."""
    for name in which:
        ALL[name](theme)


def take_program(theme: str) -> None:
    """Take a job's card, and its Edit dialog."""
    with open_camera(theme) as (camera, folder):
        client = Countersign(*create_credentials(folder, "github").values())
        arguments = {"version": "2.8.0", "env": "prod", "servers": 2, "tell": ["ana@example.com"]}
        reason = "All 812 tests are green."
        client.request(DEPLOY, arguments, channel="#support", reason=reason)
        photograph_card(camera, "program", "2.8.0")
        camera.press(f"{CARD} [data-action-id=edit]")
        camera.save_picture(MODAL, "program-edit", "Whom to tell")


def take_hook(theme: str) -> None:
    """Take the card of a command that Claude Code is about to run."""
    with open_camera(theme) as (camera, folder):
        command = ["-m", "bot", "hook", "--channel", "#support"]
        with run_program(folder, "laptop", command, json.dumps(USE)):
            photograph_card(camera, "hook", "kubectl")


def take_server(theme: str) -> None:
    """Take the card of an MCP server's tool that the agent wants to use."""
    with TemporaryDirectory() as kept:
        file = Path(kept, "servers.toml")
        file.write_text(SERVERS, "utf-8")
        settings = {"COUNTERSIGN_SERVERS": str(file), "COUNTERSIGN_POLICY": str(DEMO_POLICY_PATH)}
        run_countersign(Path(kept), "mcp", "accept", "--yes", **settings)
        with open_camera(theme, COUNTERSIGN_SERVERS=str(file)) as (camera, _):
            ask_the_agent(camera)


def ask_the_agent(camera: Camera) -> None:
    """Ask for goods as Ben, and photograph the card of the agent's call."""
    camera.act_as("ben")
    asked = "@countersign warehouse, reserve mugs, 3 boxes"
    camera.write("[data-testid=composer]", asked + Keys.ENTER)
    photograph_card(camera, "server", "mugs")


def take_host(theme: str) -> None:
    """Take the card of a call that an MCP host makes through the proxy."""
    with (
        open_camera(theme) as (camera, folder),
        run_program(folder, "laptop", ["-c", HOST, str(WAREHOUSE)]),
    ):
        photograph_card(camera, "host", "mugs")


ALL: Mapping[str, Callable[[str], None]] = {
    "program": take_program,
    "hook": take_hook,
    "server": take_server,
    "host": take_host,
}


def photograph_card(camera: Camera, name: str, text: str) -> None:
    """Open the newest thread as Ana, and save a picture of its card, which holds `text`."""
    camera.act_as("ana")
    camera.find(f"{MAIN} [data-testid=message]", text)
    camera.press(f"{MAIN} [data-testid=open-thread]")
    camera.save_picture(CARD, name, text)


def create_credentials(folder: Path, name: str) -> dict[str, str]:
    """Create an API key for a program of that name in a running demo; return its variables."""
    file = folder / "var" / "demo" / "program.sh"
    found = dict(re.findall(r"^export (COUNTERSIGN_\w+)=(.*)$", file.read_text("utf-8"), re.M))
    printed = run_countersign(
        folder / "var" / "demo", "key", "new", name, "--for", "@ben", "--tools", "*"
    )
    key = re.search(r"csk_\S+", printed)
    assert key is not None
    return {"COUNTERSIGN_URL": found["COUNTERSIGN_URL"], "COUNTERSIGN_API_KEY": key[0]}


def run_countersign(folder: Path, *words: str, **variables: str) -> str:
    """Run a `countersign` command in that folder and return what it prints."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-m", "bot", *words]
    ended = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=PATIENCE
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@contextmanager
def run_program(
    folder: Path, name: str, command: Sequence[str], standard_input: str = ""
) -> Iterator[None]:
    """Run a program of that name beside the demo, with this standard input; end it afterwards."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), **create_credentials(folder, name)}
    with subprocess.Popen(
        [sys.executable, *command],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(standard_input)
        process.stdin.close()
        try:
            yield
        finally:
            process.terminate()
