"""Methods whose subject the sandbox lacks, refused as Slack does in a workspace without it.

Workflow steps, work objects and manifests that are managed by API: no id of them can be valid here.
Arguments are checked as far as Slack checks them before it looks an id up.
"""

from __future__ import annotations

from typing import Any

from slack_sandbox.spec.slack_error import Json, SlackError, invalid
from slack_sandbox.web_api.arguments import Args
from slack_sandbox.workspace.state import World


def api_test(_: World, args: Args) -> Json:
    """api.test: says back what it was sent; `error` makes it fail with that code."""
    sent: Json = {"args": dict(args.values)} if args.values else {}
    if error := args.text("error"):
        raise SlackError(error, **sent)
    return sent


def complete_error(_: World, __: Args) -> Json:
    """functions.completeError: no workflow of the sandbox runs a step."""
    raise SlackError("function_execution_not_found")


def complete_success(_: World, args: Args) -> Json:
    """functions.completeSuccess: no workflow of the sandbox runs a step."""
    if not isinstance(args.json("outputs", "parameter_validation_failed"), dict):
        raise SlackError("parameter_validation_failed")
    raise SlackError("function_execution_not_found")


def no_entity(_: World, args: Args) -> Json:
    """entity.*: their triggers come from work objects, which the sandbox does not show."""
    comments: Any = args.json("comments")
    if comments is not None and not isinstance(comments, list):
        raise invalid(["must provide an array [json-pointer:/comments]"])
    if args.flag("user_auth_required") and not args.text("user_auth_url"):
        raise SlackError("user_auth_url_missing")
    raise SlackError("invalid_trigger_id")


def comment_action(_: World, args: Args) -> Json:
    """entity.acknowledgeCommentAction."""
    if not args.has("comment") and not args.has("error"):
        raise SlackError("missing_comment_data")
    raise SlackError("invalid_trigger_id")


METHODS = {
    "api.test": api_test,
    "functions.completeSuccess": complete_success,
    "functions.completeError": complete_error,
    "entity.presentDetails": no_entity,
    "entity.presentComments": no_entity,
    "entity.acknowledgeCommentAction": comment_action,
}
