"""The files to deploy with agree with the code: commands, settings, paths, ports, extras, units."""

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
from tests.pages import ROOT, blocks, blocks_in, section

DEPLOY, PAGE = ROOT / "docs" / "deploy", ROOT / "docs" / "deploying.md"
DOCKERFILE, COMPOSE = DEPLOY / "Dockerfile", DEPLOY / "compose.yaml"
UNITS = sorted([*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")])
NOT_OURS = {"PATH", "PYTHONUNBUFFERED", "POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD"}
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def list_variables() -> set[str]:
    """The variables of all settings."""
    return {str(each.title) for each in Settings.model_fields.values() if each.title}


def read_steps(word: str) -> list[str]:
    """The Dockerfile's steps that begin with that word, without it; continued lines are joined."""
    text = re.sub(r"\\\n\s*", " ", DOCKERFILE.read_text("utf-8"))
    return [line.removeprefix(f"{word} ") for line in text.splitlines() if line.startswith(word)]


def read_image_variables() -> dict[str, str]:
    """The variables that the image sets."""
    [given] = read_steps("ENV")
    return dict(each.split("=", 1) for each in shlex.split(given))


def read_unit(path: Path) -> dict[str, dict[str, list[str]]]:
    """A unit's sections: each key with all its values."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("["):
            here = found.setdefault(line.strip("[]"), {})
        elif line:
            key, _, value = line.partition("=")
            here.setdefault(key, []).append(value)
    return found


def read_compose_file() -> dict[str, Any]:
    """The contents of compose.yaml."""
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text("utf-8"))
    return found


def test_the_page_names_every_file() -> None:
    """All but countersign-backup.service, which its timer starts."""
    text = PAGE.read_text("utf-8")
    named = {path.name for path in DEPLOY.iterdir() if f"deploy/{path.name}" in text}
    assert {path.name for path in DEPLOY.iterdir()} - named == {"countersign-backup.service"}


def test_every_variable_is_a_setting() -> None:
    """In the image, compose.yaml, the units and the page's environment files."""
    services = read_compose_file()["services"].values()
    found = {
        "image": set(read_image_variables()),
        "compose": {name for each in services for name in each.get("environment", {})},
        "comments": set(re.findall(r"[A-Z]+(?:_[A-Z]+)+", COMPOSE.read_text("utf-8"))),
        "units": {
            value.split("=")[0]
            for path in UNITS
            for value in read_unit(path).get("Service", {}).get("Environment", [])
        },
        "page": set(re.findall(r"^([A-Z_]+)=", "\n".join(blocks(PAGE, "ini")), re.M)),
        "words": set(re.findall(r"`(COUNTERSIGN_\w+|POSTGRES_\w+)`", PAGE.read_text("utf-8"))),
    }
    assert all(found.values())
    assert {where: names - list_variables() - NOT_OURS for where, names in found.items()} == {
        where: set() for where in found
    }


def test_every_required_setting_is_given() -> None:
    """By the page's environment file, or by the image and the unit."""
    required = {
        str(each.title)
        for each in Settings.model_fields.values()
        if each.title and each.is_required()
    }
    plain, *_ = blocks(PAGE, "ini")
    page = set(re.findall(r"^([A-Z_]+)=", plain, re.M))
    [service] = [path for path in UNITS if path.name == "countersign.service"]
    here = {value.split("=")[0] for value in read_unit(service)["Service"]["Environment"]}
    assert required - page - here == set()
    assert required - page - set(read_image_variables()) == set()


def test_every_started_command_exists() -> None:
    """Image, compose.yaml and the bot's unit start a server, the backup's unit a backup."""
    [entry], [command] = read_steps("ENTRYPOINT"), read_steps("CMD")
    assert entry == '["countersign"]'
    client = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text("utf-8"))["project"]
    assert client["scripts"] == {"countersign": "countersign.__main__:main"}
    [started] = re.findall(r"\w+", command)
    [composed_one] = read_compose_file()["services"]["countersign"]["command"]
    [service] = read_unit(DEPLOY / "countersign.service")["Service"]["ExecStart"]
    for name in (started, composed_one, service.split()[1]):
        assert list_installed_commands()[name].is_server
    backup = read_unit(DEPLOY / "countersign-backup.service")["Service"]["ExecStart"][0]
    assert re.findall(r"/opt/countersign/bin/countersign (\w+)", backup) == ["backup"]
    assert "backup" in list_installed_commands()


def test_the_image_is_built_from_existing_files_and_extras() -> None:
    """Its Python is one that the project supports, and it does not run as root."""
    copied = [words for words in map(str.split, read_steps("COPY")) if "--from=build" not in words]
    assert copied
    assert [name for *names, _ in copied for name in names if not (ROOT / name).exists()] == []
    [install] = [step for step in read_steps("RUN") if "pip install" in step]
    [extras] = re.findall(r"'\.\[([\w,]+)\]'", install)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    assert {"cluster", "serve"} <= set(extras.split(","))
    assert "-c constraints.txt" in install
    [python] = read_steps("ARG")
    assert f"Programming Language :: Python :: {python.split('=')[1]}" in PROJECT["classifiers"]
    [user] = read_steps("USER")
    assert user.split(":")[0] in read_steps("RUN")[-1]
    assert user != "0"


def test_the_health_check_uses_the_port_the_bot_listens_on() -> None:
    """The path is one that the bot serves."""
    [health], [port] = read_steps("HEALTHCHECK"), read_steps("EXPOSE")
    asked = re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", health)
    [(at, path)] = asked
    assert at == port
    assert f'"{path}"' in (ROOT / "bot" / "http" / "http_side.py").read_text("utf-8")
    assert read_image_variables()["COUNTERSIGN_HTTP"] == f"0.0.0.0:{port}"


def test_compose_services_have_least_privilege() -> None:
    """No writable file system, capabilities or open ports; paths that may be written are listed."""
    for each in read_compose_file()["services"].values():
        assert each["read_only"] is True
        assert each["cap_drop"] == ["ALL"]
        assert each["security_opt"] == ["no-new-privileges:true"]
        assert "privileged" not in each
        assert "ports" not in each
    bot = read_compose_file()["services"]["countersign"]
    assert bot["deploy"]["replicas"] == 2
    written = {each.split(":")[0] for each in bot["tmpfs"]}
    assert written == {"/tmp", "/data"}
    assert {"/data"} == set(read_steps("VOLUME")) == set(read_steps("WORKDIR")[1:])
    [policy] = bot["volumes"]
    assert policy.split(":")[1:] == [read_image_variables()["COUNTERSIGN_POLICY"], "ro"]
    built = (DEPLOY / bot["build"]["context"]).resolve()
    assert (built, built / bot["build"]["dockerfile"]) == (ROOT, DOCKERFILE)
    assert read_compose_file()["networks"]["inside"] == {"internal": True}
    assert read_compose_file()["services"]["postgres"]["networks"] == ["inside"]


def test_the_units_can_write_where_the_database_is() -> None:
    """The database is in the state folder of both units, which run as one account."""
    services = [read_unit(path)["Service"] for path in UNITS if path.suffix == ".service"]
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


def test_commands_read_the_settings_as_the_units_do(tmp_path: Path) -> None:
    """The environment file wins over the unit's own variables, as it does in systemd."""
    (tmp_path / "countersign.env").write_text("DATABASE_URL=postgresql://db.internal/countersign\n")
    [command] = [each for each in blocks_in(section(PAGE, "systemd"), "text") if "sh -c" in each]
    [script] = re.findall(r"sh -c '\n(.*)'", command, re.S)
    script = script.replace("/etc/countersign/countersign.env", str(tmp_path / "countersign.env"))
    script = script.replace("/opt/countersign/bin/countersign pending", "env")
    found = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, check=True)
    assert "DATABASE_URL=postgresql://db.internal/countersign\n" in found.stdout
    assert "COUNTERSIGN_POLICY=/etc/countersign/policy.toml\n" in found.stdout


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd here")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """It knows every key and value. The program is replaced by one that exists here."""
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
