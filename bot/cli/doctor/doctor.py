"""`countersign doctor`: checks everything a start depends on, and says how to put it right.

It only looks: it posts nothing, migrates nothing, and may run while the bot does. `--init` writes
a first policy; `--live` tries everything at Slack once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from openai import APIStatusError, APITimeoutError, AuthenticationError, OpenAI, OpenAIError

from bot.agent import model_errors
from bot.agent.chat_completions import CHAT_DIALECT
from bot.agent.late_planner import list_api_dialects
from bot.agent.prompt import INSTRUCTIONS, build_request_item
from bot.agent.responses import RESPONSES_DIALECT
from bot.agent.turn import Dialect, ModelRequest
from bot.checks import people_checks, slack
from bot.checks.check import CheckLevel, CheckResult, CheckSubject, print_checks
from bot.checks.inspection import check_freezes_and_business_hours
from bot.checks.slack import describe_network_error
from bot.cli.doctor import checks
from bot.cli.doctor.live_check import check_app_token, run_live_check
from bot.clock import Clock, SystemClock
from bot.config.connection_settings import ListeningAddress
from bot.config.environment import (
    DotenvError,
    read_environment_variables,
    remove_variables_slack_misreads,
)
from bot.config.settings import Settings
from bot.config.startup import StartupError, read_settings_and_policy
from bot.policy.evaluation import Policy, PolicyError, parse
from bot.runs.sub_agent_runs import build_function_schema
from bot.slack.client import ListWorkspaces, find_app_id
from bot.toolbox import ToolsError
from bot.version import describe_version
from countersign.cli.console import DOTENV, UsageError, print_error, print_line
from storage.record import ReadOnlyStore

MODEL_SUBJECT = CheckSubject("model")
MIN_OUTPUT_TOKENS = 16  # the smallest limit that the Responses API accepts
READY_TOOL = {
    "name": "ready",
    "description": "Say that you are ready.",
    "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
}


def check_model(settings: Settings, clock: Clock) -> Iterator[CheckResult]:
    """Check that the model's API accepts the key, and a request of realistic size.

    A model whose context is too small for the tools fails here, not at the first request, and so
    does one that cannot call tools.
    """
    if not settings.has_model:
        text = "OPENAI_API_KEY is not set, so there is no model: people ask with forms"
        yield MODEL_SUBJECT.warn(text, "Set it to have an agent that reads what people write")
        return
    request = _build_model_request(settings, clock)
    with OpenAI(
        api_key=settings.openai_api_key.get_secret_value(),
        base_url=settings.openai_base_url,
        timeout=settings.model_timeout,
        max_retries=0,
    ) as client:
        try:
            dialect, answer = _ask_model(client, list_api_dialects(settings), request)
        except OpenAIError as error:
            yield _build_error_check(error, settings, request)
        else:
            answer_check = _build_answer_check(dialect, answer, request)
            yield answer_check
            if answer_check.level is CheckLevel.OK and dialect.path == CHAT_DIALECT.path:
                yield from _check_tool_calling(client, request.model)


def _build_model_request(settings: Settings, clock: Clock) -> ModelRequest:
    """Return the model request that a short message would lead to, with all usable tools."""
    try:
        tools = list(checks.build_tools_without_slack(settings))
    except ToolsError:  # another check reports it
        tools = []
    said = [build_request_item("U0", "Countersign", "Answer with one word.", clock.now())]
    functions = [build_function_schema(each) for each in tools]
    effort = settings.reasoning_effort
    return ModelRequest(settings.openai_model, effort, said, functions, INSTRUCTIONS)


def _ask_model(
    client: OpenAI, spoken: Sequence[Dialect], asked: ModelRequest
) -> tuple[Dialect, dict[str, Any]]:
    """Return the first API dialect that the server knows, and its answer; raises OpenAIError."""
    for dialect in spoken:
        more = {"max_output_tokens": MIN_OUTPUT_TOKENS} if dialect is RESPONSES_DIALECT else {}
        try:
            return dialect, _post_to_model(
                client, dialect, {**dialect.build_request_body(asked), **more}
            )
        except APIStatusError as error:
            if not model_errors.is_api_missing(error) or dialect is spoken[-1]:
                raise
    raise ValueError("a server speaks something")


def _post_to_model(client: OpenAI, dialect: Dialect, body: dict[str, Any]) -> dict[str, Any]:
    """Send the model a request and return the answer as plain JSON, {} if it is no object.

    Plain, since servers differ in what they leave out. Without a parameter that the server or the
    model does not have, as the bot asks.
    """
    options: Any = {"security": {"bearer_auth": True}}
    try:
        answer = client.post(dialect.path, body=body, options=options, cast_to=object)
    except APIStatusError as error:
        if not (refused := model_errors.find_refused_parameter(error, dialect, body)):
            raise
        body = {name: each for name, each in body.items() if name != refused}
        return _post_to_model(client, dialect, body)
    return answer if isinstance(answer, dict) else {}


def _build_error_check(error: OpenAIError, settings: Settings, asked: ModelRequest) -> CheckResult:
    match error:
        case _ if model_errors.is_tool_use_unsupported(error):
            text = model_errors.tools_unsupported_sentence(asked.model).rstrip(".")
            remedy = "Choose another model in OPENAI_MODEL"
        case AuthenticationError():
            text, remedy = "the API does not accept the key", "Correct OPENAI_API_KEY"
        case APIStatusError():
            reason = model_errors.extract_error_reason(error)
            return _build_refusal_check(f"HTTP {error.status_code}", reason, asked)
        case APITimeoutError():
            text = f"{asked.model} gave no answer within {settings.model_timeout:g} s"
            remedy = "Give it more time with COUNTERSIGN_MODEL_TIMEOUT"
        case _:
            text = f"the API cannot be reached ({describe_network_error(error)})"
            remedy = "Check the network, a proxy, or OPENAI_BASE_URL"
    return MODEL_SUBJECT.fail(text, remedy)


def _build_answer_check(
    dialect: Dialect, answer: dict[str, Any], request: ModelRequest
) -> CheckResult:
    """Return the check's result for the model's answer; HTTP 200 may still report a failure."""
    by_chat = dialect.path == CHAT_DIALECT.path
    answer_key, size = ("choices", "prompt_tokens") if by_chat else ("output", "input_tokens")
    if answer.get("status") == "failed" or not isinstance(answer.get(answer_key), list):
        why = (answer.get("error") or {}).get("message") or "no response"
        reason = " ".join(str(why).split()).rstrip(".")
        return _build_refusal_check("a failure", reason, request)
    token_count = (answer.get("usage") or {}).get(size)
    to = f" to a request of {token_count:,} tokens," if isinstance(token_count, int) else ""
    how = f"{request.model} answers by {dialect.name},{to} {len(request.tools)} tools included"
    return MODEL_SUBJECT.confirm(how)


def _check_tool_calling(client: OpenAI, name: str) -> Iterator[CheckResult]:
    """Warn of a model that answers in words although it has to call a tool.

    Servers may drop tools without saying so.
    """
    messages = [{"role": "user", "content": f"Call the tool {READY_TOOL['name']}."}]
    tools = [{"type": "function", "function": READY_TOOL}]
    body = {"model": name, "messages": messages, "tools": tools}
    answer: dict[str, Any] | None = None
    for choice in ("required", {"type": "function", "function": {"name": READY_TOOL["name"]}}):
        with suppress(OpenAIError):  # some servers do not accept this choice
            answer = _post_to_model(client, CHAT_DIALECT, {**body, "tool_choice": choice})
            break
    if answer is None:
        return
    choices = [each for each in answer.get("choices") or () if isinstance(each, dict)]
    if not any((each.get("message") or {}).get("tool_calls") for each in choices):
        text = f"{name} was told to call a tool, but answered in words"
        remedy = "Check whether its server passes tools on, or choose another model in OPENAI_MODEL"
        yield MODEL_SUBJECT.warn(text, remedy)


def _build_refusal_check(how: str, why: str, asked: ModelRequest) -> CheckResult:
    reason = f" ({why})" if why else ""
    text = f"{asked.model} answered {how}{reason} to a request of the usual size"
    remedy = (
        "Check whether the key may use OPENAI_MODEL at OPENAI_BASE_URL, and whether its context"
        f" is large enough for the instructions and the schemas of {len(asked.tools)} tools"
    )
    return MODEL_SUBJECT.fail(text, remedy)


POLICY_PATH = Path("policy.toml")
POLICY_TEMPLATE = """\
# Who decides what the agent may do. Countersign reads this file when it starts, and when it
# changes. Rules are tried from the top; the first that matches applies. If none matches, reads run
# and everything else asks.

[defaults]
approvers = [{approvers}]  # user ids ("U0123"), groups ("@shop-leads"), "channel" (its members)
post_to = "thread"  # or "approvers" (their DMs), a channel id ("C0123") or name ("#finance")
deadline = "4h"  # undecided by then: not run; 30s to 30d
self_approval = false  # true: people may approve what they asked for
editors = "approvers_and_requester"  # or "approvers", "nobody"
editor_counts = false  # true: people may approve what they edited

# Three examples; remove the # and change them.

# [[rule]]
# name = "no new channels"
# tool = "create_channel"  # a name, a pattern such as "refund_*", or a list of them
# verdict = "deny"
# reason = "The office creates channels."

# [[rule]]
# name = "what cannot be undone"
# effect = "destructive"  # read, write, destructive, or a list of them
# verdict = "ask"
# post_to = "approvers"
# deadline = "1d"

# [[rule]]
# name = "harmless"
# tool = "set_topic"
# verdict = "allow"
"""


def write_first_policy(approvers: Sequence[str]) -> int:
    """Write the first policy; if `approvers` is empty, ask at the terminal who decides.

    Returns the exit code.
    """
    if not approvers and sys.stdin.isatty():
        with suppress(EOFError):  # Ctrl-D: no approvers
            approvers = input(
                "Who decides? User ids (U0123), groups (@shop-leads)"
                ' or "channel", separated by spaces: '
            ).split()
    if not approvers:
        return print_error(
            "Say who decides, for example: countersign doctor --init --approver U0123 --approver"
            " @shop-leads"
        )
    try:
        write_policy(POLICY_PATH, approvers)
    except FileExistsError:
        return print_error(
            f"{POLICY_PATH} already exists and was not changed; move it away to get a new one."
        )
    except PolicyError as error:  # its problems name places in a file that was not written
        problems = (each.partition("] approvers: ")[2] or each for each in error.problems)
        return print_error(f"{POLICY_PATH} was not written: {'; '.join(problems)}")
    print_line(
        f"Wrote {POLICY_PATH}. Set COUNTERSIGN_POLICY={POLICY_PATH}, then run: countersign doctor"
    )
    return 0


def write_policy(path: Path, approvers: Sequence[str]) -> Policy:
    """Write a first policy that names `approvers` (U…, @group or channel) to `path`, and return it.

    Raises PolicyError for invalid approvers, FileExistsError rather than overwrite, and other
    OSErrors.
    """
    quoted = ", ".join(
        '"' + each.replace("\\", "\\\\").replace('"', '\\"') + '"' for each in approvers
    )
    text = POLICY_TEMPLATE.replace("{approvers}", quoted)
    policy = parse(text, str(path))
    file = path.open("x", encoding="utf-8")
    try:
        with file:
            file.write(text)
    except OSError:
        path.unlink()  # an incomplete policy would stop the next `--init`
        raise
    return policy


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: the first policy, its approvers and the live check."""
    parser.add_argument(
        "--init", action="store_true", help=f"write a first {POLICY_PATH}; never overwrites"
    )
    tried = "try everything that the bot does, in this person's direct messages, then delete it"
    parser.add_argument("--live", metavar="@me", help=f"{tried}; @name or a user id")
    who = 'who decides, with --init: a user id, "@group" or "channel"; repeatable'
    parser.add_argument("--approver", action="append", default=[], metavar="U0123", help=who)


MANY_WORKSPACES_ERROR = (
    "the bot is installed in many workspaces here: `countersign workspaces doctor` checks all,"
    " `countersign workspaces doctor T…` checks one"
)


def run(arguments: argparse.Namespace) -> int:
    """Check everything, write the first policy or run the live check; returns the exit code."""
    if arguments.live is not None:
        if arguments.init or arguments.approver:
            raise UsageError("--live takes no other options")
        return run_live_check(os.environ, DOTENV, arguments.live)
    if arguments.init:
        return write_first_policy(arguments.approver)
    if arguments.approver:
        raise UsageError("--approver needs --init")
    with suppress(DotenvError):  # the checks report it
        if "COUNTERSIGN_CLIENT_ID" in read_environment_variables(os.environ, DOTENV):
            raise UsageError(MANY_WORKSPACES_ERROR)
    return print_checks(run_all_checks(os.environ, DOTENV, SystemClock()), print_line)


def run_all_checks(
    environ: MutableMapping[str, str],
    dotenv_path: Path | None,
    clock: Clock,
    http: ListeningAddress | None = None,
    list_granted: ListWorkspaces | None = None,
) -> Iterator[CheckResult]:
    """Run all checks, yielding each result at once.

    Removes misleading variables from `environ`, as a start would. For one of many workspaces,
    `http` is the address of the process that serves them; for an organisation, `list_granted`
    returns the workspaces that it lets the bot use.
    """
    try:
        settings, policy = read_settings_and_policy(environ, dotenv_path, transport=None)
    except StartupError as error:
        yield from (CheckSubject("settings").fail(each) for each in error.settings)
        yield from (CheckSubject("policy").fail(each) for each in error.policy)
        return
    yield CheckSubject("version").confirm(describe_version())
    yield CheckSubject("settings").confirm("complete")
    for warning in settings.warnings:
        yield CheckSubject("settings").warn(warning)
    remove_variables_slack_misreads(environ, settings.slack_api_url)
    yield CheckSubject("policy").confirm(
        f"{settings.policy_path}: {len(policy.rules)} rules, digest {policy.digest[:8]}"
    )
    if http is not None:
        settings = settings.model_copy(update={"http": http})
    yield from run_checks_beyond_configuration(settings, policy, clock, list_granted)


def run_checks_beyond_configuration(
    settings: Settings, policy: Policy, clock: Clock, list_granted: ListWorkspaces | None = None
) -> Iterator[CheckResult]:
    """Yield the checks of what the settings and the policy refer to: Slack, tools, model, …

    Each comes after those it depends on. `list_granted`: as for `run_all_checks`.
    """
    client = slack.build_retrying_client(settings, list_granted)
    sign_in = slack.sign_in_to_slack(client, clock, settings.workspace)
    if isinstance(sign_in, CheckResult):
        yield sign_in
    else:
        store = ReadOnlyStore(settings.database_url)
        yield from people_checks.check_workspace(sign_in, settings, policy, store, clock.now())
    if settings.slack_app_token.get_secret_value():
        own_app = (
            "" if isinstance(sign_in, CheckResult) else find_app_id(client, sign_in.workspace.bot)
        )
        yield check_app_token(client, settings, own_app)
    yield from checks.check_http_settings(settings)
    yield from people_checks.check_signing_setup(settings, policy)
    yield from checks.check_monitoring(settings)
    yield from checks.check_tools_can_be_built(settings)
    yield from checks.check_surfaces()
    yield from checks.check_rules_against_tools(settings, policy)
    yield from check_freezes_and_business_hours(policy, clock.now())
    yield from checks.check_bot_database(settings)
    yield from checks.check_agent_databases(settings)
    yield from checks.check_mcp_servers(settings)
    yield from check_model(settings, clock)
