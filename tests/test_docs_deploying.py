"""The files to deploy with against the code: commands, settings, paths, ports, extras; units that
systemd takes.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.config.settings import Settings
from countersign.cli.commands import list_installed_commands
from tests.pages import ROOT, blocks, section

DEPLOY, PAGE = ROOT / "docs" / "deploy", ROOT / "docs" / "deploying.md"
DOCKERFILE, COMPOSE = DEPLOY / "Dockerfile", DEPLOY / "compose.yaml"
UNITS = sorted([*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")])
NOT_OURS = {"PATH", "PYTHONUNBUFFERED", "POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD"}
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def settings() -> set[str]:
    """The variables of all settings."""
    return {str(each.title) for each in Settings.model_fields.values() if each.title}


def steps(word: str) -> list[str]:
    """What the Dockerfile says behind that word, a step each, lines that go on joined."""
    text = re.sub(r"\\\n\s*", " ", DOCKERFILE.read_text("utf-8"))
    return [line.removeprefix(f"{word} ") for line in text.splitlines() if line.startswith(word)]


def in_image() -> dict[str, str]:
    """The variables of the image."""
    [given] = steps("ENV")
    return dict(each.split("=", 1) for each in shlex.split(given))


def unit(path: Path) -> dict[str, dict[str, list[str]]]:
    """A unit's sections: each key with all its values."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("["):
            here = found.setdefault(line.strip("[]"), {})
        elif line:
            key, _, value = line.partition("=")
            here.setdefault(key, []).append(value)
    return found


def composed() -> dict[str, Any]:
    """What compose.yaml says."""
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text("utf-8"))
    return found


def test_every_file_is_on_the_page() -> None:
    """Nobody has to find out what one of them is for."""
    text = PAGE.read_text("utf-8")
    named = {path.name for path in DEPLOY.iterdir() if f"deploy/{path.name}" in text}
    assert {path.name for path in DEPLOY.iterdir()} - named == {"countersign-backup.service"}


def test_every_variable_is_a_setting() -> None:
    """In the image, the composition, the units and the page's environment files."""
    services = composed()["services"].values()
    found = {
        "image": set(in_image()),
        "compose": {name for each in services for name in each.get("environment", {})},
        "comments": set(re.findall(r"[A-Z]+(?:_[A-Z]+)+", COMPOSE.read_text("utf-8"))),
        "units": {
            value.split("=")[0]
            for path in UNITS
            for value in unit(path).get("Service", {}).get("Environment", [])
        },
        "page": set(re.findall(r"^([A-Z_]+)=", "\n".join(blocks(PAGE, "ini")), re.M)),
        "words": set(re.findall(r"`(COUNTERSIGN_\w+|POSTGRES_\w+)`", PAGE.read_text("utf-8"))),
    }
    assert all(found.values())
    assert {where: names - settings() - NOT_OURS for where, names in found.items()} == {
        where: set() for where in found
    }


def test_what_a_start_needs_is_given() -> None:
    """Each required setting is in the environment file of the page, or set by image and unit."""
    required = {
        str(each.title)
        for each in Settings.model_fields.values()
        if each.title and each.is_required()
    }
    plain, *_ = blocks(PAGE, "ini")
    page = set(re.findall(r"^([A-Z_]+)=", plain, re.M))
    [service] = [path for path in UNITS if path.name == "countersign.service"]
    here = {value.split("=")[0] for value in unit(service)["Service"]["Environment"]}
    assert required - page - here == set()
    assert required - page - set(in_image()) == set()


def test_every_command_that_is_started_is_there() -> None:
    """The image's, the composition's and the units' are commands that go on, but for a backup."""
    [entry], [command] = steps("ENTRYPOINT"), steps("CMD")
    assert entry == '["countersign"]'
    client = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text("utf-8"))["project"]
    assert client["scripts"] == {"countersign": "countersign.__main__:main"}
    [started] = re.findall(r"\w+", command)
    [composed_one] = composed()["services"]["countersign"]["command"]
    [service] = unit(DEPLOY / "countersign.service")["Service"]["ExecStart"]
    for name in (started, composed_one, service.split()[1]):
        assert list_installed_commands()[name].is_server
    backup = unit(DEPLOY / "countersign-backup.service")["Service"]["ExecStart"][0]
    assert re.findall(r"/opt/countersign/bin/countersign (\w+)", backup) == ["backup"]
    assert "backup" in list_installed_commands()


def test_the_image_is_made_of_what_is_there() -> None:
    """What it copies is in the repository, its extras and its Python are the project's."""
    copied = [words for words in map(str.split, steps("COPY")) if "--from=build" not in words]
    assert copied
    assert [name for *names, _ in copied for name in names if not (ROOT / name).exists()] == []
    [install] = [step for step in steps("RUN") if "pip install" in step]
    [extras] = re.findall(r"'\.\[([\w,]+)\]'", install)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    assert {"cluster", "serve"} <= set(extras.split(","))
    assert "-c constraints.txt" in install
    [python] = steps("ARG")
    assert f"Programming Language :: Python :: {python.split('=')[1]}" in PROJECT["classifiers"]
    [user] = steps("USER")
    assert user.split(":")[0] in steps("RUN")[-1]
    assert user != "0"


def test_the_image_asks_where_the_bot_answers() -> None:
    """Its health is asked at the port that the bot listens to there."""
    [health], [port] = steps("HEALTHCHECK"), steps("EXPOSE")
    asked = re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", health)
    [(at, path)] = asked
    assert at == port
    assert f'"{path}"' in (ROOT / "bot" / "http" / "http_side.py").read_text("utf-8")
    assert in_image()["COUNTERSIGN_HTTP"] == f"0.0.0.0:{port}"


def test_nothing_there_may_do_more_than_it_must() -> None:
    """No service writes its file system or has capabilities; paths that are written are given."""
    for each in composed()["services"].values():
        assert each["read_only"] is True
        assert each["cap_drop"] == ["ALL"]
        assert each["security_opt"] == ["no-new-privileges:true"]
        assert "privileged" not in each
        assert "ports" not in each
    bot = composed()["services"]["countersign"]
    assert bot["deploy"]["replicas"] == 2
    written = {each.split(":")[0] for each in bot["tmpfs"]}
    assert written == {"/tmp", "/data"}
    assert {"/data"} == set(steps("VOLUME")) == set(steps("WORKDIR")[1:])
    [policy] = bot["volumes"]
    assert policy.split(":")[1:] == [in_image()["COUNTERSIGN_POLICY"], "ro"]
    built = (DEPLOY / bot["build"]["context"]).resolve()
    assert (built, built / bot["build"]["dockerfile"]) == (ROOT, DOCKERFILE)
    assert composed()["networks"]["inside"] == {"internal": True}
    assert composed()["services"]["postgres"]["networks"] == ["inside"]


def test_the_units_write_where_the_record_is() -> None:
    """The database is in the state folder of both units, which are one account's."""
    services = [unit(path)["Service"] for path in UNITS if path.suffix == ".service"]
    for each in services:
        assert each["User"] == ["countersign"]
        assert each["ProtectSystem"] == ["strict"]
        folders = {f"/var/lib/{name}" for name in each["StateDirectory"][0].split()}
        assert each["WorkingDirectory"][0] in folders
        given = dict(value.split("=", 1) for value in each["Environment"])
        record = Path(given["DATABASE_URL"].removeprefix("sqlite:///"))
        assert str(record.parent) in folders
        page = section(PAGE, "systemd")
        assert all(path in page for path in ("/etc/countersign/", str(record), *folders - {"x"}))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd here")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """It knows every key and value; the program it starts is one that is there."""
    for path in UNITS:
        text = path.read_text("utf-8").replace("/opt/countersign/bin/countersign", "/bin/true")
        (tmp_path / path.name).write_text(text)
    found = subprocess.run(
        ["systemd-analyze", "verify", *(str(tmp_path / path.name) for path in UNITS)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    ours = [line for line in found.stderr.splitlines() if "countersign" in line]
    assert (found.returncode, ours) == (0, [])
