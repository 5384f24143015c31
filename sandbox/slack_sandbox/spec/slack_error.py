"""The answer of Slack to a call that it refuses: an error code and what explains it.

Plain data; it knows no method and no state.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


class SlackError(Exception):
    """A refusal in Slack's words: an error code, with whatever else belongs into the answer."""

    def __init__(self, code: str, **extra: Any) -> None:
        super().__init__(code)
        self.code = code
        self.extra = extra

    def body(self) -> Json:
        """The JSON answer."""
        return {"ok": False, "error": self.code, **self.extra}


_CODES_WITH_ERRORS_FIELD = ("invalid_blocks",)  # these also list the messages in `errors`


def invalid(messages: list[str], code: str = "invalid_arguments") -> SlackError:
    """An error that lists what is wrong with which argument.

    `messages` without the [ERROR] mark.
    """
    more = {"errors": messages} if code in _CODES_WITH_ERRORS_FIELD else {}
    return SlackError(
        code, **more, response_metadata={"messages": [f"[ERROR] {text}" for text in messages]}
    )
