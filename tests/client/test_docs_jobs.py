"""The jobs of docs/integrations.md work as written: they ask, wait, and run what was approved."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bot.approvals.receipts import ReceiptWriter
from tests.client.shop import Shop, get_result, key_for
from tests.pages import ROOT, blocks
from tests.stories.steps import cards_of, press

GITHUB, GITLAB = (yaml.safe_load(each) for each in blocks(ROOT / "docs/integrations.md", "yaml"))
SERVICES = {
    "GitHub": (
        ["bash", "-e", "-c"],
        [each["run"] for each in GITHUB["jobs"]["deploy"]["steps"] if "run" in each],
        {
            "GITHUB_REF_NAME": "v1.2 $(id)",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_REPOSITORY": "a/b",
            "GITHUB_RUN_ID": "12",
            "GITHUB_RUN_ATTEMPT": "1",
        },
    ),
    "GitLab": (
        ["sh", "-e", "-c"],
        GITLAB["deploy"]["script"],
        {"CI_COMMIT_TAG": "v1.3; id", "CI_JOB_URL": "https://gitlab.com/1", "CI_JOB_ID": "1"},
    ),
}


@pytest.mark.parametrize("name", SERVICES)
def test_the_job_of_the_page_deploys_what_was_approved(
    shop: Shop, name: str, tmp_path: Path
) -> None:
    """The repository holds the keys, and no shell reads the version."""
    shell, [install, deploy], variables = SERVICES[name]
    assert install == "pip install 'countersign-client[verify]'"
    core, web = shop.harness.app.core, shop.harness.app.endpoints.web
    assert web is not None
    keys = ReceiptWriter(core.key, core.tools).build_public_keys()
    tmp_path.joinpath("countersign-keys.json").write_text(json.dumps(keys))
    script = tmp_path / "deploy.sh"
    script.write_text('#!/bin/sh\nprintf "%s|" "$@" > deployed\n')
    script.chmod(0o755)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COUNTERSIGN_URL": web.url,
        "COUNTERSIGN_API_KEY": key_for(shop.harness, name.lower(), "deploy"),
        **variables,
    }

    def run_job() -> tuple[int, str]:
        done = subprocess.run(
            [*shell, deploy], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        return done.returncode, done.stderr

    job = shop.start(run_job)
    version = next(each for each in variables.values() if each.startswith("v1."))
    harness, text = shop.harness, f"deploy {version} to prod"
    [card] = harness.slack.wait(lambda: cards_of(harness, "ana", text))
    press(harness, "ana", harness.person("ana").dm_channel, card, "approve")
    code, said = get_result(job)
    assert (code, "It ended with exit code 0." in said) == (0, True), said
    assert tmp_path.joinpath("deployed").read_text() == f"prod|{version}|"
