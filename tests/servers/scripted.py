"""A server with scripted answers, over stdio line by line, or over HTTP.

`python scripted.py FOLDER`: FOLDER/answers.json has the lines that answer a call of each tool;
"$ID" is replaced by the id of the call. Its "asking" tools are listed only for clients that can be
asked by forms. FOLDER/calls has a line for each call.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

END = "end"  # the server ends during the call
WAIT = "wait"  # the server does nothing else until somebody writes to the pipe FOLDER/go
PROMISE = {
    "type": "object",
    "properties": {"number": {"type": "integer"}},
    "required": ["number"],
}


def answer_message(folder: Path, message: dict[str, Any]) -> list[str]:
    """Return the lines that answer a message."""
    script = json.loads((folder / "answers.json").read_text())
    number, method = message.get("id"), message.get("method")
    if number is None:
        return []

    def result(**found: Any) -> list[str]:
        return [json.dumps({"jsonrpc": "2.0", "id": number, "result": found})]

    if method in script.get("ends_at", []):
        return [END]
    if method in script.get("instead", {}):
        return result(**script["instead"][method])
    if method == "initialize":
        can_be_asked = message["params"]["capabilities"].get("elicitation") == {"form": {}}
        (folder / "client").write_text("can be asked" if can_be_asked else "")
        return result(
            protocolVersion="2025-06-18",
            capabilities={"tools": {}},
            serverInfo={"name": "scripted", "version": "1"},
            instructions=script.get("instructions", "Plain."),
        )
    if method == "tools/list":
        if script.get("endless"):
            after = message.get("params", {}).get("cursor", "")
            return result(tools=[], nextCursor=f"{after} on")
        asking = script.get("asking", []) if (folder / "client").read_text() else []
        shapes = script.get("shapes", {})
        return result(tools=[_tool(name, shapes) for name in [*script["tools"], *asking]])
    if method == "tools/call":
        name = message["params"]["name"]
        with (folder / "calls").open("a") as file:
            file.write(f"{name}\n")
        text = script["tools"][name]
        return [each.replace('"$ID"', json.dumps(number)) for each in text]
    unknown = {"code": -32601, "message": "there is no such method"}
    return [json.dumps({"jsonrpc": "2.0", "id": number, "error": unknown})]


def _tool(name: str, shapes: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {
        "name": name,
        "description": f"Does {name}.\x1b[2J",
        "inputSchema": shapes.get(name, schema),
        "outputSchema": PROMISE,
    }


def main(folder: Path) -> None:
    """Answer each line of the standard input."""
    with (folder / "starts").open("a") as file:
        file.write(f"{os.getpid()}\n")
    for line in sys.stdin:
        for each in answer_message(folder, json.loads(line)):
            if each == END:
                os._exit(3)
            if each == WAIT:
                (folder / "go").read_text()
                continue
            sys.stdout.write(f"{each}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
