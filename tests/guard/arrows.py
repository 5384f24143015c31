"""What may import what: the rooms and their arrows, circles, chains, and a few single rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.guard.sources import HOMES, Source, imports, module_of

LONGEST_CHAIN = 12  # files

# Rooms, and those below them that each may import. A file right in bot/ is a room of its own.
LEAVES = (
    "bot.signals",
    "bot.clock",
    "countersign.durations",
    "bot.identity",
    "bot.live",
    "bot.signals",
    "bot.slack_codes",
    "bot.toml_file",
    "bot.monitoring",
)
UP_TO_TOOLS = ("storage", "bot.policy", "bot.tools")
UP_TO_APPROVALS = (*UP_TO_TOOLS, "bot.config", "bot.cards", "bot.approvals")
ALL_ROOMS = (
    *UP_TO_APPROVALS,
    *("bot.agent", "bot.runs", "bot.explain", "bot.surfaces", "bot.terminal", "bot.programs"),
    *("bot.upkeep", "bot.mcp", "countersign.mcp_client"),
    *("bot.slack", "bot.core", "bot.replicas", "bot.checks"),
)
START = ("bot.signing_key", "bot.toolbox")
ARROWS: dict[str, tuple[str, ...]] = {
    "storage": (),
    **dict.fromkeys(LEAVES, LEAVES),
    "bot.live": ("storage",),
    "bot.monitoring": ("storage", "bot.live"),
    "bot.policy": ("storage", "countersign.durations", "bot.toml_file"),
    "bot.tools": ("storage", "bot.policy", *LEAVES),
    "bot.agent": ("bot.policy", "bot.tools", "bot.config", *LEAVES),
    "bot.cards": (*UP_TO_TOOLS, *LEAVES),
    "countersign.mcp_client": (),
    "countersign.version": (),
    "bot.mcp": (*UP_TO_TOOLS, "countersign.mcp_client", *LEAVES),
    "bot.config": (*UP_TO_TOOLS, "bot.mcp", *LEAVES),
    "bot.approvals": (*UP_TO_TOOLS, "bot.config", "bot.agent", "bot.cards", *LEAVES),
    "bot.runs": (*UP_TO_APPROVALS, "bot.agent", *LEAVES),
    "bot.core": (*UP_TO_APPROVALS, "bot.agent", "bot.runs", "bot.surfaces", "bot.upkeep", *LEAVES),
    "bot.explain": (*UP_TO_APPROVALS, *LEAVES),
    "bot.replicas": ("storage", "bot.config", "bot.runs", "bot.slack", *LEAVES),
    "bot.surfaces": (*UP_TO_APPROVALS, "bot.agent", "bot.runs", *LEAVES),
    "bot.terminal": (*UP_TO_APPROVALS, "bot.agent", "bot.runs", "bot.surfaces", *LEAVES),
    "bot.programs": (*UP_TO_APPROVALS, "bot.agent", "bot.runs", "bot.surfaces", *LEAVES),
    "bot.upkeep": ("storage", "bot.surfaces", *LEAVES),
    "bot.slack": (*UP_TO_APPROVALS, "bot.agent", "bot.explain", *LEAVES),
    "bot.checks": (
        *UP_TO_APPROVALS,
        *("bot.explain", "bot.slack", "bot.surfaces", "bot.terminal"),
        *LEAVES,
    ),
    "bot.toolbox": (*UP_TO_TOOLS, "bot.config", "bot.mcp", "bot.slack", *LEAVES),
    "bot.signing_key": ("storage", "bot.config", "bot.agent", *LEAVES),
    "bot.app": (*ALL_ROOMS, *START, "bot.http", *LEAVES),
    "bot.http": (*ALL_ROOMS, "countersign", "countersign.mcp_proxy", *LEAVES),
    # it is loaded by other programs
    "countersign": ("countersign.durations", "countersign.mcp_client", "countersign.mcp_proxy"),
    "countersign.mcp_proxy": ("countersign", "countersign.mcp_client"),
    "bot.cli": (
        *ALL_ROOMS,
        *START,
        "bot.app",
        "countersign",
        "countersign.mcp_proxy",
        *LEAVES,
    ),
}
SANDBOX = "slack_sandbox"
OVER_ALL = (
    *("bot/__main__.py", "bot/cli/demo.py", "bot/cli/demo.py", "bot/cli/commands.py"),
    *("bot/demo/demo.py", "bot/demo/first_days.py"),
)


def room_of(path: str) -> str:
    """The room a file belongs to: a distribution or storage, else a package or file of bot/."""
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    parts = parts[1:] if f"{parts[0]}/" in HOMES else parts
    room = ".".join(parts[:2])
    return room if parts[0] == "bot" or room in ARROWS else parts[0]


def against_the_arrows(source: Source) -> Iterator[str]:
    """Imports of a room that lies above this file's, or beside it."""
    mine = room_of(source.path)
    for each in imports(source):
        if not each.within("bot", "storage", "countersign"):
            continue
        theirs = room_of(each.name.replace(".", "/"))
        if (
            theirs in (mine, "bot", "bot.__version__", "bot.version", "countersign.version")
            or source.path in OVER_ALL
        ):
            continue
        if theirs not in ARROWS.get(mine, ()):
            arrow = f"no arrow leads from {mine} to {theirs}"
            yield f"{source}:{each.line}: imports {each.name}; {arrow}"


Graph = Mapping[str, Sequence[str]]


def module_graph(files: Mapping[str, Source]) -> dict[str, list[str]]:
    """Each file and the files it imports when it runs; types-only imports are left out."""
    graph: dict[str, list[str]] = {}
    for path, source in files.items():
        found = {module_of(each, files) for each in imports(source) if not each.typing}
        graph[path] = sorted(each for each in found if each is not None and each != path)
    return graph


def package_graph(files: Mapping[str, Source]) -> dict[str, list[str]]:
    """Each folder and those its files import from; a file right at the top stands for itself."""
    tops = ("bot", "client/countersign", "storage")
    node = {path: path if each.folder in tops else each.folder for path, each in files.items()}
    graph: dict[str, set[str]] = {each: set() for each in node.values()}
    for path, found in module_graph(files).items():
        graph[node[path]] |= {node[each] for each in found} - {node[path]}
    return {each: sorted(found) for each, found in graph.items()}


def circles(graph: Graph) -> list[list[str]]:
    """Every set of two or more nodes that reach one another (Tarjan's components), sorted."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for each in graph[node]:
            if each not in order:
                visit(each)
            if each in stack:
                low[node] = min(low[node], low[each])
        if low[node] == order[node]:
            at = stack.index(node)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for node in graph:
        if node not in order:
            visit(node)
    return sorted(each for each in found if len(each) > 1)


def longest_chain(graph: Graph) -> list[str]:
    """The longest path of a graph without circles, from its beginning."""
    best: dict[str, list[str]] = {}

    def chain(node: str) -> list[str]:
        if node not in best:
            best[node] = [node]  # of use only where there is a circle, which is told elsewhere
            best[node] = [node, *max(map(chain, graph[node]), key=len, default=[])]
        return best[node]

    return max(map(chain, graph), key=len, default=[])


@dataclass(frozen=True)
class Rule:
    """Files (patterns) that may not import these packages, but for `allowed` ones, and why."""

    files: tuple[str, ...]
    banned: tuple[str, ...]
    why: str
    but: tuple[str, ...] = ()  # files the rule does not concern
    allowed: tuple[str, ...] = ()  # packages inside the banned ones
    typing: bool = False  # imports for the type checker are fine

    def broken(self, source: Source) -> Iterator[str]:
        """Each import of the file that the rule bans."""
        if not any(fnmatchcase(source.path, each) for each in self.files):
            return
        if any(fnmatchcase(source.path, each) for each in self.but):
            return
        for each in imports(source):
            fine = each.within(*self.allowed) or (self.typing and each.typing)
            if each.within(*self.banned) and not fine:
                yield f"{source}:{each.line}: imports {each.name}; {self.why}"


SLACK = ("slack_sdk", "slack_bolt")
SLACK_TOOLS = "bot/tools/slack_*"
ENTRIES = (
    "bot/cli/service.py",
    "bot/cli/service.py",
    "bot/cli/demo.py",
    "bot/demo/demo.py",
    "tests/*",
)
RULES = (
    Rule(("storage/*",), ("bot",), "storage never looks back at the bot"),
    Rule(
        ("storage/*",),
        (*SLACK, "openai", "apscheduler"),
        "storage knows no Slack, OpenAI or scheduler",
    ),
    Rule(("bot/agent/*",), (*SLACK, "bot.slack"), "the agent knows no Slack client"),
    Rule(
        ("bot/tools/*",),
        ("bot.slack", "bot.agent", "openai"),
        "tools know neither Slack's edge nor the model's",
    ),
    Rule(("bot/tools/*",), SLACK, "tools know no Slack client", but=(SLACK_TOOLS,)),
    Rule(
        (SLACK_TOOLS,),
        SLACK,
        "Slack tools are handed a client",
        allowed=("slack_sdk.errors",),
        typing=True,
    ),
    Rule(("bot/slack/*",), ("openai", "bot.agent.planner"), "Slack's edge knows no OpenAI"),
    Rule(
        ("*",),
        (SANDBOX,),
        "the sandbox is for its two commands and tests",
        ("bot/cli/demo.py", "bot/cli/demo.py", "bot/demo/*", "sandbox/*", "tests/*"),
    ),
    Rule(("*",), ("bot.app",), "only the entry points build it all", ENTRIES),
)


def forbidden_imports(source: Source) -> Iterator[str]:
    """Imports that the design rules out by name."""
    for rule in RULES:
        yield from rule.broken(source)


SLACK_EDGE = (
    *SLACK,
    *(f"bot.slack.{name}" for name in ("listeners", "channel_queues", "sender", "directory")),
)
MODEL_EDGE = ("openai", "bot.agent.planner")


def imports_everything(source: Source) -> Iterator[str]:
    """A file other than bot/app.py that knows both edges to the world: a second place to build."""
    there = [each for each in imports(source) if not each.typing]
    if source.path != "bot/app.py" and all(
        any(each.within(*edge) for each in there) for edge in (SLACK_EDGE, MODEL_EDGE)
    ):
        yield f"{source}:1: imports Slack's edge and the model's; only bot/app.py knows both"
