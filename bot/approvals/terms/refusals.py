"""Calls that are refused before anybody is asked: why, in words for the model and for people."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ValidationError

from bot.agent import outputs
from bot.policy.directory import LookupFailedError
from bot.tools import Tool
from bot.tools.arguments import dump_arguments, load_arguments
from bot.tools.names import Naming
from bot.tools.registration import REASON_FIELD
from storage.digest import OddValueError, parse_object


class RefusedError(Exception):
    """The call is refused before anyone is asked; `output` is for the model, `note` for people."""

    def __init__(self, output: str, note: str = "", *, tell: bool = False) -> None:
        super().__init__(output)
        self.output, self.note, self.tell = output, note or output, tell


def parse(tool: Tool[Any], text: str, names: Naming) -> tuple[BaseModel, str]:
    """Return the model's argument text as validated arguments, and the reason it gives.

    Looks `names` up. Raises RefusedError.
    """
    try:
        found = parse_object(text)
        reason = str(found.pop(REASON_FIELD, "") or "")[:500] if tool.takes_reason else ""
        args = load_arguments(tool, json.dumps(found), names)
        dump_arguments(args)
    except OddValueError as error:
        raise RefusedError(outputs.not_arguments(error), "its arguments were not valid") from error
    except LookupFailedError as error:
        raise RefusedError(outputs.NAMES_UNKNOWN, "Slack could not be asked for names") from error
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}"
            for e in error.errors()[:20]
        ]
        raise RefusedError(
            outputs.invalid_arguments(lines), "its arguments were not valid"
        ) from error
    return args, reason
