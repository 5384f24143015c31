"""The look at the model: a request as the bot makes them, with its instructions and every tool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from openai import APIStatusError, APITimeoutError, AuthenticationError, OpenAI, OpenAIError

from bot.agent.chat_completions import CHAT
from bot.agent.late_planner import dialects
from bot.agent.model_errors import lacks_api, lacks_tools, no_tools_sentence, reason_of
from bot.agent.prompt import INSTRUCTIONS, request_item
from bot.agent.responses import RESPONSES
from bot.agent.turn import Dialect, ModelRequest
from bot.checks.check import Check, Level, fail, ok, warn
from bot.cli.read_only_core import NotLookedUp
from bot.clock import Clock
from bot.config.settings import Settings
from bot.runs.sub_agent_runs import function_schema
from bot.toolbox import ToolsError, make_tools

LEAST = 16  # tokens of an answer; the Responses API takes no smaller limit
READY = {
    "name": "ready",
    "description": "Say that you are ready.",
    "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
}


def check_model(settings: Settings, clock: Clock) -> Iterator[Check]:
    """Whether the model's API takes the key and a request of the size that people's requests have.

    A model whose context is too small for the tools fails here, not at the first request, and so
    does one that cannot call any.
    """
    if not settings.has_model:
        text = "OPENAI_API_KEY is unset, so there is none: people ask with forms"
        yield warn("model", text, "Set it for an agent that reads what people write")
        return
    asked = _asked(settings, clock)
    with OpenAI(
        api_key=settings.openai_api_key.get_secret_value(),
        base_url=settings.openai_base_url,
        timeout=settings.model_timeout,
        max_retries=0,
    ) as client:
        try:
            dialect, answer = _answer(client, dialects(settings), asked)
        except OpenAIError as error:
            yield _failed(error, settings, asked)
        else:
            found = _answered(dialect, answer, asked)
            yield found
            if found.level is Level.OK and dialect.path == CHAT.path:
                yield from _calls_none(client, asked.model)


def _asked(settings: Settings, clock: Clock) -> ModelRequest:
    """What a short message would lead to; with the tools that can be used."""
    try:
        tools = list(make_tools(settings, None, NotLookedUp("the model is tried without Slack")))
    except ToolsError:  # another look tells of it
        tools = []
    said = [request_item("U0", "Countersign", "Answer with one word.", clock.now())]
    functions = [function_schema(each) for each in tools]
    effort = settings.reasoning_effort
    return ModelRequest(settings.openai_model, effort, said, functions, INSTRUCTIONS)


def _answer(
    client: OpenAI, spoken: Sequence[Dialect], asked: ModelRequest
) -> tuple[Dialect, dict[str, Any]]:
    """The answer, in the first dialect that the server has; raises OpenAIError."""
    for dialect in spoken:
        more = {"max_output_tokens": LEAST} if dialect is RESPONSES else {}
        try:
            return dialect, _post(client, dialect, {**dialect.request_of(asked), **more})
        except APIStatusError as error:
            if not lacks_api(error) or dialect is spoken[-1]:
                raise
    raise ValueError("a server speaks something")


def _post(client: OpenAI, dialect: Dialect, body: dict[str, Any]) -> dict[str, Any]:
    """The answer as plain JSON, since servers differ in what they leave out."""
    options: Any = {"security": {"bearer_auth": True}}
    answer = client.post(dialect.path, body=body, options=options, cast_to=object)
    return answer if isinstance(answer, dict) else {}


def _failed(error: OpenAIError, settings: Settings, asked: ModelRequest) -> Check:
    """What is wrong where there is no answer."""
    name = asked.model
    if lacks_tools(error):
        return fail("model", no_tools_sentence(name).rstrip("."), "Name another in OPENAI_MODEL")
    match error:
        case AuthenticationError():
            return fail("model", "the API does not take the key", "Correct OPENAI_API_KEY")
        case APIStatusError():
            return _refused(name, f"HTTP {error.status_code}", reason_of(error), asked)
        case APITimeoutError():
            text = f"{name} gave no answer within {settings.model_timeout:g} s"
            return fail("model", text, "Give it more time with COUNTERSIGN_MODEL_TIMEOUT")
        case _:
            remedy = "See to the network, a proxy, or OPENAI_BASE_URL"
            return fail("model", f"the API cannot be reached ({type(error).__name__})", remedy)


def _answered(dialect: Dialect, answer: dict[str, Any], asked: ModelRequest) -> Check:
    """What the answer says: a failure may come as a success of HTTP."""
    by_chat = dialect.path == CHAT.path
    said, size = ("choices", "prompt_tokens") if by_chat else ("output", "input_tokens")
    if answer.get("status") == "failed" or not isinstance(answer.get(said), list):
        why = (answer.get("error") or {}).get("message") or "no response"
        reason = " ".join(str(why).split()).rstrip(".")
        return _refused(asked.model, "a failure", reason, asked)
    taken = (answer.get("usage") or {}).get(size)
    to = f" to a request of {taken:,} tokens," if isinstance(taken, int) else ""
    how = f"{asked.model} answers by {dialect.name},{to} {len(asked.tools)} tools included"
    return ok("model", how)


def _calls_none(client: OpenAI, name: str) -> Iterator[Check]:
    """Warn of a model that answers in words where it has to call a tool: servers may say nothing
    of tools that they leave out.
    """
    said = [{"role": "user", "content": f"Call the tool {READY['name']}."}]
    tools = [{"type": "function", "function": READY}]
    body = {"model": name, "messages": said, "tools": tools}
    answer: dict[str, Any] | None = None
    for choice in ("required", {"type": "function", "function": {"name": READY["name"]}}):
        with suppress(OpenAIError):  # some servers know no such choice
            answer = _post(client, CHAT, {**body, "tool_choice": choice})
            break
    if answer is None:
        return
    choices = [each for each in answer.get("choices") or () if isinstance(each, dict)]
    if not any((each.get("message") or {}).get("tool_calls") for each in choices):
        text = f"{name} had to call a tool, and answered in words"
        remedy = "See whether its server gives it tools, or name another in OPENAI_MODEL"
        yield warn("model", text, remedy)


def _refused(name: str, how: str, why: str, asked: ModelRequest) -> Check:
    text = f"{name} answered {how}{f' ({why})' if why else ''} to a request of the usual size"
    remedy = (
        "See whether the key may use OPENAI_MODEL at OPENAI_BASE_URL, and whether its context"
        f" has room for the instructions and the schemas of {len(asked.tools)} tools"
    )
    return fail("model", text, remedy)
