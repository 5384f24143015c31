"""Node apps as the sandbox starts them: pointed at it, and kept from everywhere else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sandbox.tests.launch.conftest import Start
from slack_sandbox.server import Sandbox

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
CLIENT = """
class WebClient {
  constructor(token, { slackApiUrl = "slack" } = {}) { this.slackApiUrl = slackApiUrl; }
}
exports.WebClient = WebClient;
exports.default = WebClient;
"""
INDEX = """
exports.WebClient = void 0;
var client_1 = require("./WebClient");
Object.defineProperty(exports, "WebClient",
  { enumerable: true, get: function () { return client_1.WebClient; } });
"""
USED = "console.log(new C('x').slackApiUrl, new C('x', { slackApiUrl: 'other' }).slackApiUrl)"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("app.cjs", "const { WebClient: C } = require('@slack/web-api');"),
        ("app.mjs", "import { WebClient as C } from '@slack/web-api';"),
        ("own.mjs", "import web from '@slack/web-api'; const C = web.WebClient;"),
    ],
)
def test_clients_call_the_sandbox_from_node(
    start: Start, sandbox: Sandbox, tmp_path: Path, name: str, code: str
) -> None:
    """This holds for require and import; a client with an address of its own keeps it."""
    package = tmp_path / "node_modules" / "@slack" / "web-api"
    (package / "dist").mkdir(parents=True)
    (package / "package.json").write_text('{"name": "@slack/web-api", "main": "dist/index.js"}')
    (package / "dist" / "WebClient.js").write_text(CLIENT)
    (package / "dist" / "index.js").write_text(INDEX)
    (tmp_path / name).write_text(code + USED)
    ended = start("node", name)
    assert ended.stdout.split() == [sandbox.api_url, "other"], ended.stderr


def test_loaders_of_typescript_get_the_sandbox_as_well(
    start: Start, sandbox: Sandbox, tmp_path: Path
) -> None:
    """tsx, for example, reads modules itself."""
    package = tmp_path / "node_modules" / "@slack" / "web-api"
    (package / "dist").mkdir(parents=True)
    (package / "package.json").write_text('{"name": "@slack/web-api", "main": "dist/index.js"}')
    (package / "dist" / "WebClient.js").write_text(CLIENT)
    (package / "dist" / "index.js").write_text(INDEX)
    (tmp_path / "reads_it_itself.cjs").write_text(
        """
        const read = (module, file) =>
          module._compile(require("fs").readFileSync(file, "utf8").replace(": string", ""), file);
        require("module")._extensions[".js"] = require("module")._extensions[".ts"] = read;
        """
    )
    code = "const { WebClient: C } = require('@slack/web-api'); const x: string = 'x';"
    (tmp_path / "app.ts").write_text(code + USED)
    ended = start("node", "--require", "./reads_it_itself.cjs", "app.ts")
    assert ended.stdout.split() == [sandbox.api_url, "other"], ended.stderr


def test_node_reaches_the_sandbox_only(start: Start, tmp_path: Path) -> None:
    """A call to another machine is refused; a call to Slack ends the app."""
    (tmp_path / "app.mjs").write_text(
        """
        import http from "node:http";
        console.log(await (await fetch(process.env.SLACK_API_URL + "api.test")).text());
        await fetch("http://192.0.2.1/").catch((error) => console.log(error.cause.message));
        http.get("http://model.example/").on("error", async (error) => {
          console.log(error.code);
          await fetch("https://slack.com/api/auth.test").catch(() => console.log("on"));
        });
        """
    )
    ended = start("node", "app.mjs", HTTPS_PROXY="http://192.0.2.1:1")
    answer, refused, code = ended.stdout.splitlines()
    assert '"ok": true' in answer
    assert refused.startswith("local Slack: refused a connection to 192.0.2.1, which is not this")
    assert code == "ECONNREFUSED"
    assert ended.stderr.count("local Slack: refused") == 2
    assert ended.stderr.endswith("was about to reach slack.com; give it SLACK_API_URL\n")
    assert ended.returncode == 1
