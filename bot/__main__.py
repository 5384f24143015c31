"""The command line: `countersign run`, `demo`, `sandbox`, `doctor`, `explain` and `policy replay`.

It starts and stops things, and prints what people read.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from slack_sdk.errors import SlackApiError

from bot import __version__
from bot.clock import SystemClock
from bot.policy.evaluate import PolicyError
from bot.settings import SettingsError, prepare_environment
from bot.startup import StartupError, read
from storage.sqlite import AlreadyRunningError
from storage.store import SchemaError

DOTENV = Path(".env")
POLICY = Path("policy.toml")
DEMO = Path("var/demo")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv` (sys.argv without the name, when None); returns the exit code."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command == "doctor" and arguments.approver and not arguments.init:
        parser.error("--approver goes with doctor --init")
    # COUNTERSIGN_TOOLS may name modules that lie in the working directory
    sys.path.append(os.getcwd())
    if arguments.command in ("run", "demo", "sandbox"):
        signal.signal(signal.SIGTERM, _end)
    try:
        if arguments.command == "run":
            return _run()
        if arguments.command == "demo":
            return _demo(arguments)
        if arguments.command == "sandbox":
            return _sandbox(arguments)
        if arguments.command in ("explain", "policy"):
            return _look(arguments)
        return _init(arguments.approver) if arguments.init else _doctor()
    except KeyboardInterrupt:  # how run and demo are meant to end, wherever it finds them
        return 0 if arguments.command in ("run", "demo", "sandbox") else 130
    except (StartupError, SettingsError, SchemaError) as error:
        print(error, file=sys.stderr)
    except AlreadyRunningError:
        print(
            "Countersign is already running on this database; stop that one first.", file=sys.stderr
        )
    except SlackApiError as error:
        code = error.response.get("error")
        print(
            f"Slack answers {code}; `countersign doctor` says what to do about it.", file=sys.stderr
        )
    except OSError as error:
        print(f"Countersign cannot start: {error}; see `countersign doctor`.", file=sys.stderr)
    return 1


def _end(_signal: int, _frame: object) -> NoReturn:
    """SIGTERM ends things as Ctrl-C does."""
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "countersign", description="The agent proposes, your team countersigns."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help="the bot, with settings from the environment and .env")
    demo = commands.add_parser(
        "demo", help="a local Slack, a local planner and the bot, in one process"
    )
    demo.add_argument(
        "--port", type=int, help="where the page is served (default: 8765 or the next free one)"
    )
    sandbox = commands.add_parser(
        "sandbox", help="the local Slack alone, for any app that honours SLACK_API_URL"
    )
    sandbox.add_argument(
        "--port", type=int, help="where it is served (default: 8765 or the next free one; 0: any)"
    )
    manifest = (
        "an app's manifest, YAML or JSON; repeatable (default: one app that may do everything)"
    )
    sandbox.add_argument(
        "--manifest", type=Path, action="append", default=[], metavar="FILE", help=manifest
    )
    sandbox.add_argument(
        "--seed", type=Path, metavar="FILE", help="people, channels and apps, as TOML"
    )
    sandbox.add_argument(
        "--rate-limits", action="store_true", help="answer 429 beyond Slack's tiers"
    )
    doctor = commands.add_parser("doctor", help="look at everything a start depends on")
    doctor.add_argument(
        "--init", action="store_true", help=f"write a first {POLICY}; never overwrites"
    )
    who = 'who decides, with --init: a user id, "@group" or "channel"; repeatable'
    doctor.add_argument("--approver", action="append", default=[], metavar="U0123", help=who)
    _looks(commands)
    return parser


def _looks(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The commands that only look."""
    policy = "this policy in the place of the one in force"
    explain = commands.add_parser(
        "explain", help="what would become of a call: which rule, who decides, when"
    )
    explain.add_argument(
        "call", nargs="+", metavar=("tool", "key=value"), help="the tool, and its arguments"
    )
    explain.add_argument("--as", dest="person", default="", metavar="U0123", help="who asks for it")
    explain.add_argument(
        "--in", dest="channel", default="", metavar="C0123", help="where: an id, or #name"
    )
    explain.add_argument("--policy", type=Path, metavar="FILE", help=policy)
    replay = commands.add_parser(
        "policy", help="replay: which recorded calls a policy would have decided otherwise"
    )
    replay.add_argument("what", choices=["replay"])
    replay.add_argument(
        "--since", default="30d", metavar="30d", help="how far back: 12h, 30d (default: 30d)"
    )
    replay.add_argument("--policy", type=Path, metavar="FILE", help=policy)


def _look(arguments: argparse.Namespace) -> int:
    from bot.cli import explain

    ask = explain.explain_command if arguments.command == "explain" else explain.replay_command
    return ask(arguments, os.environ, DOTENV, _say, _complain)


def _run() -> int:
    settings, policy = read(os.environ, DOTENV)
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    for warning in settings.warnings:
        logging.getLogger("countersign").warning(warning)
    prepare_environment(os.environ, settings)
    # only now: Bolt and what else it imports see the prepared environment
    from bot.app import build

    try:
        app = build(settings, SystemClock(), policy)
    except (ImportError, TypeError, ValueError) as error:
        raise StartupError(
            [f"the tools cannot be used: {error}; see COUNTERSIGN_TOOLS"], ()
        ) from error
    try:
        app.start()
        app.wait()
    finally:
        app.stop()
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    try:
        from bot.sandbox.demo import run  # aiohttp comes with the extra only
        from bot.sandbox.ports import PortTakenError
    except ModuleNotFoundError as error:
        return _without_extra("demo", error)
    try:
        run(DEMO, arguments.port, os.environ, _say)
    except PortTakenError as error:
        return _complain(error)
    return 0


def _sandbox(arguments: argparse.Namespace) -> int:
    try:
        from bot.sandbox.standalone import CannotStart, run  # as above
    except ModuleNotFoundError as error:
        return _without_extra("sandbox", error)
    where = (arguments.port, arguments.manifest, arguments.seed)
    try:
        run(*where, rate_limits=arguments.rate_limits, say=_say, warn=_complain)
    except CannotStart as error:
        return _complain(error)
    return 0


def _without_extra(command: str, error: ModuleNotFoundError) -> int:
    if error.name != "aiohttp":
        raise error
    return _complain(f"The {command} needs aiohttp: pip install 'countersign-bot[sandbox]'")


def _say(line: str) -> None:
    print(line, flush=True)


def _complain(problem: object) -> int:
    print(problem, file=sys.stderr)
    return 1


def _doctor() -> int:
    from bot.cli.doctor.doctor import doctor, examine

    return doctor(examine(os.environ, DOTENV, SystemClock()), lambda line: print(line, flush=True))


def _init(approvers: list[str]) -> int:
    from bot.cli.doctor.doctor import write_policy

    if not approvers and sys.stdin.isatty():
        answer = input(
            'Who decides? User ids (U0123), groups (@shop-leads) or "channel", separated by spaces: '
        )
        approvers = answer.split()
    if not approvers:
        print(
            "Say who decides: countersign doctor --init --approver U0123 --approver @shop-leads",
            file=sys.stderr,
        )
        return 1
    try:
        write_policy(POLICY, approvers)
    except FileExistsError:
        print(
            f"{POLICY} is already there and was left as it is; move it away to have a new one.",
            file=sys.stderr,
        )
        return 1
    except PolicyError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Wrote {POLICY}. Set COUNTERSIGN_POLICY={POLICY}, then run: countersign doctor")
    return 0


if __name__ == "__main__":
    sys.exit(main())
