"""The frameworks that `make integrations` installs, and what their examples need."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from bot.demo.model_server import Turn
from tests.pages import ROOT, blocks_in, section

PAGE = ROOT / "docs" / "integrations.md"
ENVIRONMENTS = ROOT / ".venv-integrations"
PATIENCE = 90  # seconds
DONE = "That is all."
ANSWER = "final_answer"  # the tool with which BeeAI's agents answer
LITELLM = "import beeai_framework.adapters.openai, litellm.responses.mcp.chat_completions_handler"


@dataclass(frozen=True, slots=True)
class Framework:
    """One framework: the package its examples import first, its environment, what else it imports
    once, and whether its suspended function is async.
    """

    name: str
    package: str
    environment: Path = ENVIRONMENTS
    loads: str = ""
    awaits: bool = False

    @property
    def python(self) -> Path:
        """The Python that runs it."""
        return self.environment / "bin" / "python"

    def example(self, title: str) -> str:
        """The example in the page's section."""
        mine = re.compile(rf"^from {self.package}\b", re.M)
        [code] = [each for each in blocks_in(section(PAGE, title), "python") if mine.search(each)]
        return code


FRAMEWORKS = (
    Framework("langgraph", "langchain.agents"),
    Framework("openai_agents", "agents", awaits=True),
    Framework("pydantic_ai", "pydantic_ai"),
    Framework("haystack", "haystack"),
    Framework("beeai", "beeai_framework", ENVIRONMENTS / "beeai", LITELLM, awaits=True),
)


def build_environment(folder: Path) -> dict[str, str]:
    """The variables of a program that reaches only the servers named to it."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT / "client"),
        "OPENAI_API_KEY": "sk-offline-offline-offline",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "HAYSTACK_TELEMETRY_ENABLED": "False",
    }


def build_last_turn(text: str, by_a_tool: bool) -> Turn:
    """The model's last turn; for BeeAI it is a call."""
    return Turn(calls=[(ANSWER, {"response": text})]) if by_a_tool else Turn(text=text)
