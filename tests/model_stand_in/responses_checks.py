"""Refuses requests that OpenAI's Responses API refuses, for the stand-in for the model.

Request bodies are only read; compaction requests are also answered here.
"""

from __future__ import annotations

import re
import secrets
import time
from collections import Counter
from typing import Any

from bot.demo.model_server import Item, estimate_tokens
from tests.model_stand_in.answers import REASONING_MODEL, is_matching_seal, seal_reasoning
from tests.model_stand_in.responses_schema import (
    ITEMS,
    CompactRequestBody,
    FilePart,
    FunctionToolParam,
    ImagePart,
    RequestRefusal,
    ResponsesRequestBody,
    TextPart,
    build_bad_value_refusal,
    is_valid_data_url,
    parse_strict_model,
)

MODEL = re.compile(r"^(gpt-\d|o\d|stand-in)[\w.:-]*$")
# The parts that each role may have; other roles have text.
_SAID = {
    "assistant": ["output_text", "refusal"],
    "user": ["input_text", "input_image", "input_file"],
}
# Real parameters that the stand-in does not support, and so refuses.
UNSUPPORTED = (
    "background",
    "context_management",
    "conversation",
    "image",
    "moderation",
    "prompt",
    "access_programs",
)

TOO_LONG = "context_length_exceeded"


def check_responses_request(body: Any, *, lenient_ids: bool = False) -> None:
    """Raise RequestRefusal unless the Responses API would accept this request body.

    `lenient_ids` acts like a compatible server that lets call ids be empty or used again.
    """
    if not isinstance(body, dict):
        raise RequestRefusal(
            "We could not parse the JSON body of your request: expected an object."
        )
    for name in UNSUPPORTED:
        if body.get(name):
            raise RequestRefusal(
                f"Unsupported parameter: '{name}' is not kept by the offline stand-in.",
                name,
                "unsupported",
            )
    parsed = parse_strict_model(ResponsesRequestBody, body, "")
    _check_model(parsed)
    for index, each in enumerate(parsed.tools or []):
        check_tool(each, f"tools[{index}]")
    _check_tool_choice(parsed)
    if isinstance(parsed.input, list):
        for index, item in enumerate(parsed.input):
            _check_item(item, f"input[{index}]", lenient_ids)
        _check_call_output_pairs(parsed.input, lenient_ids)
        _check_reasoning(parsed.input)
    elif not isinstance(parsed.input, str):
        raise RequestRefusal(
            "Missing required parameter: 'input'.", "input", "missing_required_parameter"
        )


def check_context_size(body: dict[str, Any], context: int | None, *, by_chat: bool = False) -> None:
    """Raise RequestRefusal if a request has more than `context` tokens; None allows any number.

    A request that allows truncation always passes. `by_chat`: it came as a Chat Completions
    request, and the error has that API's words.
    """
    asked = estimate_tokens([body.get(each) for each in ("instructions", "input", "tools")])
    if context is None or asked <= context or body.get("truncation") == "auto":
        return
    if by_chat:
        text = f"This model's maximum context length is {context} tokens. However, your messages"
        why = f"resulted in {asked} tokens. Please reduce the length of the messages."
        raise RequestRefusal(f"{text} {why}", "messages", TOO_LONG)
    text = "Your input exceeds the context window of this model. Please adjust your input"
    raise RequestRefusal(f"{text} and try again.", "input", TOO_LONG)


def _check_model(body: ResponsesRequestBody) -> None:
    if not MODEL.match(body.model):
        raise RequestRefusal(
            f"The requested model '{body.model}' does not exist.", "model", "model_not_found"
        )
    if body.previous_response_id:
        message = f"Previous response with id '{body.previous_response_id}' not found."
        raise RequestRefusal(message, "previous_response_id", "previous_response_not_found")
    if body.stream_options and not body.stream:
        raise RequestRefusal(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "stream_options",
        )
    reasons = bool(REASONING_MODEL.match(body.model))
    if body.include and body.model.startswith("gpt-") and not reasons:
        raise RequestRefusal("Encrypted content is not supported with this model.", "include")
    thinks = reasons and not (body.reasoning and body.reasoning.effort == "none")
    has_effort = body.reasoning is not None and body.reasoning.effort is not None
    refuse_unfit_parameters(
        ("temperature", thinks and body.temperature is not None),
        ("top_p", thinks and body.top_p is not None),
        ("reasoning.effort", not reasons and has_effort),
    )


def refuse_unfit_parameters(*found: tuple[str, bool]) -> None:
    """Raise RequestRefusal for the first of these parameters that is unfit for the model."""
    if name := next((name for name, is_unfit in found if is_unfit), None):
        message = f"Unsupported parameter: '{name}' is not supported with this model."
        raise RequestRefusal(message, name, "unsupported_parameter")


def check_tool(tool: dict[str, Any], path: str) -> None:
    """Raise RequestRefusal unless this is a valid function tool; `path` names its place."""
    parsed = parse_strict_model(FunctionToolParam, tool, path)
    schema = parsed.parameters or {"type": "object", "properties": {}}
    if schema.get("type") != "object":
        raise _build_schema_refusal(
            parsed.name,
            path,
            f"schema must be a JSON Schema of 'type: \"object\"', got {schema.get('type')!r}.",
        )
    if not isinstance(schema.get("properties", {}), dict):
        raise _build_schema_refusal(parsed.name, path, "'properties' is not an object.")
    if {"oneOf", "anyOf", "allOf", "enum", "not"} & schema.keys():
        text = "have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top"
        raise _build_schema_refusal(parsed.name, path, f"schema must {text} level.")
    if _lacks_array_items(schema):
        raise _build_schema_refusal(parsed.name, path, "array schema missing items.")
    if parsed.strict:
        _check_strict_schema(schema, parsed.name, path)


def _lacks_array_items(node: Any) -> bool:
    """Return whether an array in this schema, at any level, does not say what is in it."""
    if isinstance(node, list):
        return any(map(_lacks_array_items, node))
    if not isinstance(node, dict):
        return False
    kinds = node.get("type")
    is_array = kinds == "array" or (isinstance(kinds, list) and "array" in kinds)
    return (is_array and "items" not in node) or any(map(_lacks_array_items, node.values()))


def _check_strict_schema(schema: dict[str, Any], name: str, path: str) -> None:
    """Refuse a strict tool that has an optional property, or allows others, at any level."""
    nested = [
        *schema.get("properties", {}).values(),
        *schema.get("$defs", {}).values(),
        *schema.get("anyOf", []),
    ]
    if isinstance(schema.get("items"), dict):
        nested.append(schema["items"])
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            raise _build_schema_refusal(
                name, path, "'additionalProperties' is required to be supplied and to be false."
            )
        for missing in sorted(set(schema.get("properties", {})) - set(schema.get("required", []))):
            text = "'required' is required to be supplied and to be an array including every key"
            raise _build_schema_refusal(name, path, f"{text} in properties. Missing '{missing}'.")
    for each in nested:
        if isinstance(each, dict):
            _check_strict_schema(each, name, path)


def _build_schema_refusal(name: str, path: str, what: str) -> RequestRefusal:
    return RequestRefusal(
        f"Invalid schema for function '{name}': {what}",
        f"{path}.parameters",
        "invalid_function_parameters",
    )


def _check_tool_choice(body: ResponsesRequestBody) -> None:
    names = [each.get("name") for each in body.tools or []]
    for name, count in Counter(names).items():
        if count > 1:
            raise RequestRefusal(
                f"Tool names must be unique: '{name}' is used {count} times.",
                "tools",
                "invalid_value",
            )
    choice = body.tool_choice
    if isinstance(choice, dict) and choice.get("type") == "function":
        if choice.get("name") not in names:
            raise RequestRefusal(
                f"Tool choice '{choice.get('name')}' not found in 'tools' parameter.", "tool_choice"
            )
    elif choice not in ("auto", "none", "required"):
        wanted = "expected 'none', 'auto', 'required' or a function of 'tools'."
        message = f"Invalid value for 'tool_choice': {wanted}"
        raise RequestRefusal(message, "tool_choice", "invalid_value")
    elif choice == "required" and not names:
        raise RequestRefusal(
            "Tool choice 'required' must be specified with 'tools' parameter.", "tool_choice"
        )


def _check_item(item: Any, path: str, lenient_ids: bool) -> None:
    if not isinstance(item, dict):
        raise RequestRefusal(
            f"Invalid type for '{path}': expected an object.", path, "invalid_type"
        )
    kind = item.get("type", "message")
    if kind not in ITEMS:
        raise build_bad_value_refusal(kind, f"{path}.type", list(ITEMS))
    if lenient_ids and item.get("call_id") == "":
        item = {**item, "call_id": "empty"}
    parse_strict_model(ITEMS[kind], item, path)
    if kind == "message":
        _check_content(item["content"], f"{path}.content", _SAID.get(item["role"], ["input_text"]))
    elif kind == "function_call_output":
        _check_content(item["output"], f"{path}.output", ["input_text"])


def _check_content(content: Any, path: str, allowed: list[str]) -> None:
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        message = f"Invalid type for '{path}': expected one of a string or an array of objects."
        raise RequestRefusal(message, path, "invalid_type")
    for index, part in enumerate(content):
        where = f"{path}[{index}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in allowed:
            raise build_bad_value_refusal(kind, f"{where}.type", allowed)
        if kind in ("input_image", "input_file"):
            check_media_part(part, where)
        elif kind != "refusal":
            parse_strict_model(TextPart, part, where)


def check_media_part(part: dict[str, Any], path: str) -> None:
    """Raise RequestRefusal unless this part is a valid picture or file; `path` names its place."""
    if part["type"] == "input_image":
        if not is_valid_data_url(
            parse_strict_model(ImagePart, part, path).image_url, pictures=True
        ):
            what = "The image data you provided does not represent a valid image."
            text = f"{what} Please check your input and try again with a PNG, JPEG, GIF or WebP."
            raise RequestRefusal(text, f"{path}.image_url", "invalid_value")
    elif not is_valid_data_url(parse_strict_model(FilePart, part, path).file_data, pictures=False):
        text = f"Invalid file data: '{path}.file_data'. Expected a base64-encoded PDF."
        raise RequestRefusal(text, f"{path}.file_data", "invalid_value")


def _check_call_output_pairs(items: list[dict[str, Any]], lenient_ids: bool) -> None:
    """Refuse calls without one later output, outputs without a call, and repeated ids."""
    waiting: Counter[str] = Counter()
    seen: set[str] = set()
    for item in items:
        kind, call_id = item.get("type"), str(item.get("call_id"))
        if kind == "function_call":
            if call_id in seen and not lenient_ids:
                raise RequestRefusal(
                    f"Duplicate function call with call_id {call_id}.", "input", "invalid_value"
                )
            seen.add(call_id)
            waiting[call_id] += 1
        elif kind == "function_call_output":
            if waiting[call_id] == 0:
                what = (
                    "Duplicate function call output"
                    if call_id in seen
                    else "No tool call found for function call output"
                )
                raise RequestRefusal(f"{what} with call_id {call_id}.", "input")
            waiting[call_id] -= 1
    for call_id in (each for each, count in waiting.items() if count):
        raise RequestRefusal(f"No tool output found for function call {call_id}.", "input")
    for item_id, count in Counter(item["id"] for item in items if item.get("id")).items():
        if count > 1:
            advice = "Remove duplicate items from your input and try again."
            raise RequestRefusal(f"Duplicate item found with id {item_id}. {advice}", "input")


def _check_reasoning(items: list[dict[str, Any]]) -> None:
    """Refuse altered, misplaced or missing reasoning, and altered compaction items."""
    for index, item in enumerate(items):
        if item.get("type") == "reasoning":
            _check_sealed_reasoning(item, items[index + 1] if index + 1 < len(items) else {})
        elif item.get("type") == "compaction":
            name = item.get("id") or ""
            if not is_matching_seal(item["encrypted_content"], name, []):
                text = f"The encrypted content for item {name} could not be verified."
                raise RequestRefusal(text, None, "invalid_encrypted_content")
    given = {item["id"] for item in items if item.get("type") == "reasoning"}
    for item in items:
        led = re.fullmatch(r"fc_([0-9a-f]{40})_\d+", item.get("id") or "")
        if led and f"rs_{led[1]}" not in given:
            what = f"Item '{item['id']}' of type 'function_call' was provided"
            raise RequestRefusal(
                f"{what} without its required 'reasoning' item: 'rs_{led[1]}'.", "input"
            )


def _check_sealed_reasoning(item: dict[str, Any], follower: dict[str, Any]) -> None:
    name = f"Item '{item['id']}' of type 'reasoning'"
    if not item.get("encrypted_content"):
        what = f"Item with id '{item['id']}' not found."
        raise RequestRefusal(
            f"{what} Items are not persisted when `store` is set to false.", "input", status=404
        )
    if not is_matching_seal(item["encrypted_content"], item["id"], item["summary"]):
        message = f"The encrypted content for item {item['id']} could not be verified."
        raise RequestRefusal(message, None, "invalid_encrypted_content")
    said = follower.get("type") == "message" and follower.get("role") == "assistant"
    if not said and follower.get("type") != "function_call":
        raise RequestRefusal(f"{name} was provided without its required following item.", "input")


def build_compaction_response(body: Any, context: int | None) -> Item:
    """Return the answer to a compaction request, in the form of OpenAI's server.

    It has all user messages, and one sealed item for the rest. Raises RequestRefusal for requests
    that OpenAI's server refuses.
    """
    if not isinstance(body, dict):
        raise RequestRefusal(
            "We could not parse the JSON body of your request: expected an object."
        )
    asked = parse_strict_model(CompactRequestBody, body, "")
    check_responses_request(
        {"model": asked.model, "input": asked.input, "instructions": asked.instructions}
    )
    check_context_size(body, context)
    items = [] if isinstance(asked.input, str) else asked.input
    said = [
        {
            "id": f"msg_{secrets.token_hex(20)}",
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": [{"type": "input_text", "text": each["content"]}]
            if isinstance(each["content"], str)
            else each["content"],
        }
        for each in items
        if each.get("role") == "user"
    ]
    name = f"cmp_{secrets.token_hex(20)}"
    made = {"id": name, "type": "compaction", "encrypted_content": seal_reasoning(name, [])}
    read, written = estimate_tokens([asked.instructions, asked.input]), estimate_tokens(made)
    usage = {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + written,
    }
    return {
        "id": f"resp_{secrets.token_hex(20)}",
        "object": "response.compaction",
        "created_at": int(time.time()),
        "output": [*said, made],
        "usage": usage,
    }
