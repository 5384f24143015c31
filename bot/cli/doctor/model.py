"""The look at the model: a request as the bot makes them, with its instructions and every tool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from openai import APIStatusError, APITimeoutError, AuthenticationError, OpenAI, OpenAIError

from bot.agent.dialect import Inquiry
from bot.agent.prompt import INSTRUCTIONS, request
from bot.agent.responses import RESPONSES
from bot.agent.troubles import reason_of
from bot.cli.doctor.check import Check, fail, ok, warn
from bot.cli.readonly.directory import NotLookedUp
from bot.clock import Clock
from bot.config.settings import Settings
from bot.runs.children.roles import function
from bot.toolbox import ToolsError, toolbox

LEAST = 16  # tokens of an answer; the API takes no smaller limit


def check_model(settings: Settings, clock: Clock) -> Iterator[Check]:
    """Whether the model's API takes the key and a request of the size that people's requests have.

    A model whose context is too small for the tools fails here, not at the first request.
    """
    if not settings.has_model:
        text = "OPENAI_API_KEY is unset, so there is none: people ask with forms"
        yield warn("model", text, "Set it for an agent that reads what people write")
        return
    key, name = settings.openai_api_key.get_secret_value(), settings.openai_model
    body = _request(settings, clock)
    with OpenAI(
        api_key=key,
        base_url=settings.openai_base_url,
        timeout=settings.model_timeout,
        max_retries=0,
    ) as client:
        try:
            # as plain JSON, since servers differ in what they leave out
            answer = client.post(
                "/responses",
                body=body,
                options={"security": {"bearer_auth": True}},
                cast_to=object,
            )
        except AuthenticationError:
            yield fail("model", "the API does not take the key", "Correct OPENAI_API_KEY")
        except APIStatusError as error:
            yield _refused(name, f"HTTP {error.status_code}", reason_of(error), body)
        except APITimeoutError:
            text = f"{name} gave no answer within {settings.model_timeout:g} s"
            yield fail("model", text, "Give it more time with COUNTERSIGN_MODEL_TIMEOUT")
        except OpenAIError as error:
            remedy = "See to the network, a proxy, or OPENAI_BASE_URL"
            yield fail("model", f"the API cannot be reached ({type(error).__name__})", remedy)
        else:
            yield _answered(name, answer if isinstance(answer, dict) else {}, body)


def _request(settings: Settings, clock: Clock) -> dict[str, Any]:
    """What a short message would lead to; with the tools that can be used."""
    try:
        tools = list(toolbox(settings, None, NotLookedUp("the model is tried without Slack")))
    except ToolsError:  # another look tells of it
        tools = []
    said = [request("U0", "Countersign", "Answer with one word.", clock.now())]
    functions = [function(each) for each in tools]
    effort = settings.reasoning_effort
    asked = Inquiry(settings.openai_model, effort, said, functions, INSTRUCTIONS)
    return {**RESPONSES.request_of(asked), "max_output_tokens": LEAST}


def _answered(name: str, answer: dict[str, Any], body: dict[str, Any]) -> Check:
    """What the answer says: a failure may come as a success of HTTP."""
    if answer.get("status") == "failed" or "output" not in answer:
        why = (answer.get("error") or {}).get("message") or "no response"
        return _refused(name, "a failure", " ".join(str(why).split()).rstrip("."), body)
    taken = (answer.get("usage") or {}).get("input_tokens")
    size = f", to a request of {taken:,} tokens" if isinstance(taken, int) else ""
    return ok("model", f"{name} answers{size}, {len(body['tools'])} tools included")


def _refused(name: str, how: str, why: str, body: dict[str, Any]) -> Check:
    text = f"{name} answered {how}{f' ({why})' if why else ''} to a request of the usual size"
    remedy = (
        "See whether the key may use OPENAI_MODEL at OPENAI_BASE_URL, and whether its context"
        f" has room for the instructions and the schemas of {len(body['tools'])} tools"
    )
    return fail("model", text, remedy)
