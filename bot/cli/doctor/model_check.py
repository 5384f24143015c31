"""Doctor's check of the model: a request of realistic size, and whether it calls tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from openai import APIStatusError, APITimeoutError, AuthenticationError, OpenAI, OpenAIError

from bot.agent import model_errors
from bot.agent.chat_completions import CHAT_DIALECT
from bot.agent.late_planner import list_api_dialects
from bot.agent.prompt import INSTRUCTIONS, build_request_item
from bot.agent.responses import RESPONSES_DIALECT
from bot.agent.turn import Dialect, ModelRequest
from bot.checks.check import CheckLevel, CheckResult, CheckSubject
from bot.checks.slack import describe_network_error
from bot.cli.read_only_core import build_tools_without_slack
from bot.clock import Clock
from bot.config.settings import Settings
from bot.runs.sub_agent_runs import build_function_schema
from bot.toolbox import ToolsError

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
        tools = list(build_tools_without_slack(settings))
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
