"""The files for Kubernetes are valid and agree with the code."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot import __version__
from bot.app import STOP_GRACE_SECONDS as STEP
from bot.config.connection_settings import Transport
from bot.config.settings import Settings
from bot.config.workspace_settings import (
    SHARED_VARIABLES_PATTERN,
    WORKSPACE_ID_PATTERN,
    WORKSPACE_POLICY_FILE,
    WORKSPACE_SETTINGS_FILE,
)
from bot.http.http_side import SLACK_EVENTS_PATH as EVENTS
from bot.http.server import SHUTDOWN_GRACE_SECONDS
from bot.monitoring.traces import FLUSH_TIMEOUT_SECONDS as TRACES
from bot.policy.evaluation import parse
from bot.slack.socket_client import ACKNOWLEDGE_TIMEOUT_SECONDS
from bot.workspaces import web
from bot.workspaces.install_pages import INSTALL_PATH, REDIRECT_PATH
from countersign.cli.commands import list_installed_commands
from tests.pages import ROOT, blocks_in, section
from tests.test_docs_deploying import list_variables, read_image_variables, read_steps

FOLDER = ROOT / "docs" / "kubernetes"
FILES = sorted(FOLDER.glob("*.yaml"))
OLDEST = "1.30"  # the first version with preStop.sleep
MADE = "made-with-openssl-rand-hex-32"
USES, RENEWS = 5.0, 15.0  # seconds: for an app's users to finish, and for Slack to renew a token


def read_objects(name: str) -> list[dict[str, Any]]:
    """All objects of a file."""
    return list(yaml.safe_load_all((FOLDER / name).read_text("utf-8")))


def list_objects(kind: str) -> list[dict[str, Any]]:
    """All objects of that kind."""
    found = [each for path in FILES for each in read_objects(path.name) if each["kind"] == kind]
    assert found, kind
    return found


def pods() -> list[dict[str, Any]]:
    """What the Deployment and the CronJob start."""
    [deployment], [job] = list_objects("Deployment"), list_objects("CronJob")
    spec = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return [deployment["spec"]["template"]["spec"], spec]


def list_containers() -> list[dict[str, Any]]:
    """All containers."""
    return [each for pod in pods() for each in [*pod.get("initContainers", []), *pod["containers"]]]


def read_variables() -> dict[str, str]:
    """What the bot's container is given, the secrets aside."""
    [settings_map] = [
        each
        for each in list_objects("ConfigMap")
        if each["metadata"]["name"] == "countersign-settings"
    ]
    own = {each["name"]: each.get("value", "") for each in pods()[0]["containers"][0]["env"]}
    return {**settings_map["data"], **own}


def read_secrets() -> dict[str, str]:
    """What the page says that the Secret has to hold."""
    [text] = blocks_in(section(ROOT / "docs" / "deploying.md", "Kubernetes"), "ini")
    return dict(line.split("=", 1) for line in text.splitlines())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_object_fits_the_schemas_of_kubernetes(path: Path) -> None:
    """Those of the oldest version that will do, and of the newest."""
    reason = "kubernetes-validate is not installed"
    validator = pytest.importorskip("kubernetes_validate", reason=reason)
    for each in read_objects(path.name):
        if each["kind"] == "Kustomization":
            continue
        for version in (OLDEST, validator.latest_version()):
            validator.validate(each, version, strict=True)


def test_the_validator_refuses_an_unknown_key() -> None:
    """Otherwise the test before this one would show nothing."""
    reason = "kubernetes-validate is not installed"
    validator = pytest.importorskip("kubernetes_validate", reason=reason)
    [deployment] = list_objects("Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["prots"] = []
    with pytest.raises(validator.ValidationError, match="prots"):
        validator.validate(deployment, OLDEST, strict=True)


@pytest.mark.skipif(not shutil.which("kubectl"), reason="there is no kubectl here")
def test_kustomize_builds_every_object() -> None:
    """The folder is complete, and the image has the version of this build."""
    built = subprocess.run(
        ["kubectl", "kustomize", str(FOLDER)], capture_output=True, text=True, check=True
    )
    made = list(yaml.safe_load_all(built.stdout))
    assert len(made) == sum(len(read_objects(path.name)) for path in FILES) - 1
    assert {each["metadata"]["namespace"] for each in made} == {"countersign"}
    assert f"image: registry.example.com/countersign:{__version__}\n" in built.stdout


def test_every_file_is_listed_and_documented() -> None:
    """kustomization.yaml lists it, and the page names it."""
    [kustomization] = read_objects("kustomization.yaml")
    names = {path.name for path in FILES}
    assert {*kustomization["resources"], "kustomization.yaml"} == names
    text = section(ROOT / "docs" / "deploying.md", "Kubernetes")
    assert {name for name in names if f"`{name}`" in text} == names


def test_every_variable_is_a_setting(tmp_path: Path) -> None:
    """Those of the process, the Secret and one workspace; and the bot can be started with them."""
    given = {**read_image_variables(), **read_variables(), **read_secrets()}
    assert {*read_variables(), *read_secrets()} - list_variables() == {"POD_IP"}
    [own] = [each for each in list_objects("ConfigMap") if "T0123ABCD.settings.env" in each["data"]]
    names = set(re.findall(r"^(\w+)=", own["data"]["T0123ABCD.settings.env"], re.M))
    assert names
    assert names <= list_variables()
    assert not any(SHARED_VARIABLES_PATTERN.fullmatch(name) for name in names)
    given |= {"COUNTERSIGN_HTTP": "10.0.0.7:8080", "COUNTERSIGN_POLICY": str(tmp_path / "p.toml")}
    (tmp_path / "p.toml").touch()
    loaded = Settings.load(
        {name: value.replace(MADE, "0" * 64) for name, value in given.items()},
        transport=Transport.HTTP,
    )
    assert loaded.is_shared
    assert loaded.client_id is not None


def test_no_secret_is_in_the_files() -> None:
    """Secrets come from the Secret object, which no file makes."""
    text = "\n".join(path.read_text("utf-8") for path in FILES)
    assert "kind: Secret" not in text
    hidden = {str(each.title) for each in Settings.model_fields.values() if "Secret" in str(each)}
    assert hidden & {*read_secrets()}
    assert hidden & {*read_variables()} == set()
    for each in list_containers():
        named = [ref["secretRef"]["name"] for ref in each.get("envFrom", []) if "secretRef" in ref]
        assert named in (["countersign"], [])


def test_port_probes_and_service_agree() -> None:
    """Each process has an address at which the others reach it."""
    container = pods()[0]["containers"][0]
    [port] = container["ports"]
    [exposed] = read_steps("EXPOSE")
    assert str(port["containerPort"]) == exposed
    assert read_variables()["COUNTERSIGN_HTTP"] == f"$(POD_IP):{port['containerPort']}"
    names = [each["name"] for each in container["env"]]
    assert names.index("POD_IP") < names.index("COUNTERSIGN_HTTP")  # or it stays unexpanded
    [service] = list_objects("Service")
    assert [each["targetPort"] for each in service["spec"]["ports"]] == [port["name"]]
    probes = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("liveness", "readiness")}
    assert {each["port"] for each in probes.values()} == {port["name"]}
    pages = Path(web.__file__).read_text("utf-8")
    assert {kind: each["path"] for kind, each in probes.items()} == {
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    assert all(f'"{each["path"]}": ' in pages for each in probes.values())
    labels = list_objects("Deployment")[0]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == labels
    assert list_objects("PodDisruptionBudget")[0]["spec"]["selector"]["matchLabels"] == labels


def test_the_ingress_lets_in_public_paths_only() -> None:
    """Slack's deliveries, the pages to install from, and the workspaces' paths."""
    [ingress] = list_objects("Ingress")
    [rule] = ingress["spec"]["rules"]
    paths = {each["path"]: each["pathType"] for each in rule["http"]["paths"]}
    assert paths == {EVENTS: "Exact", INSTALL_PATH: "Exact", REDIRECT_PATH: "Exact", "/w": "Prefix"}
    assert web._WORKSPACE_PATH_PATTERN.fullmatch("/w/T0123ABCD/sign/abc")
    assert read_variables()["COUNTERSIGN_URL"] == f"https://{rule['host']}"
    assert ingress["spec"]["tls"][0]["hosts"] == [rule["host"]]


def test_the_grace_period_covers_the_time_to_stop() -> None:
    """That is the pause before it stops, and every wait after that, one after the other."""
    pod = pods()[0]
    pause = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    stopping = (
        ACKNOWLEDGE_TIMEOUT_SECONDS + RENEWS + USES + 2 * STEP + TRACES + SHUTDOWN_GRACE_SECONDS
    )
    assert pod["terminationGracePeriodSeconds"] > pause + stopping


def test_containers_have_least_privilege() -> None:
    """Nobody is root, writes the file system, or holds a token of the cluster."""
    for pod in pods():
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert f"{pod['securityContext']['runAsUser']}:10001" == read_steps("USER")[0]
    for each in list_containers():
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    written = {
        each["mountPath"]
        for each in pods()[0]["containers"][0]["volumeMounts"]
        if not each.get("readOnly")
    }
    assert written == {"/data", "/tmp"}


def test_settings_are_mounted_where_the_variables_say() -> None:
    """With the file names that the bot reads."""
    for pod, given in zip(pods(), (read_variables(),) * 2, strict=True):
        container = pod["containers"][0]
        mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
        assert given["COUNTERSIGN_POLICY"] == f"{mounts['policy']}/policy.toml"
        assert given["COUNTERSIGN_WORKSPACES"] == mounts["workspaces"]
        here = {each["name"]: each.get("value") for each in container["env"]}
        assert all(
            here[each] == given[each] for each in ("COUNTERSIGN_POLICY", "COUNTERSIGN_WORKSPACES")
        )
        [volume] = [each for each in pod["volumes"] if each["name"] == "workspaces"]
        [source] = volume["projected"]["sources"]
        paths = {each["path"] for each in source["configMap"]["items"]}
        assert paths == {
            f"T0123ABCD/{name}" for name in (WORKSPACE_POLICY_FILE, WORKSPACE_SETTINGS_FILE)
        }
    assert WORKSPACE_ID_PATTERN.fullmatch("T0123ABCD")
    for each in list_objects("ConfigMap"):
        for name, text in each["data"].items():
            if name.endswith("policy.toml"):
                parse(text)
                tomllib.loads(text)


def test_the_containers_run_existing_commands() -> None:
    """The process serves; the nightly job lists workspaces and backs up."""
    [command] = pods()[0]["containers"][0]["args"]
    assert list_installed_commands()[command].is_server
    assert read_steps("ENTRYPOINT") == ['["countersign"]']
    [script] = pods()[1]["containers"][0]["args"]
    assert set(re.findall(r"countersign ([a-z]+)", script)) == {"workspaces", "backup"}
