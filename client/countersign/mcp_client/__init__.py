"""The connection to an MCP server, for the bot's own servers and for the proxy.

Imports nothing of the bot. Settings of a server may name environment variables, as `$NAME`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_VARIABLE_PATTERN = re.compile(r"\$(\$|[A-Za-z_][A-Za-z0-9_]*)")


def substitute_variables(text: str, environ: Mapping[str, str], missing: set[str]) -> str:
    """Return text with each "$NAME" replaced by that variable; "$$" becomes a dollar sign.

    Names of variables that are not set are added to `missing`.
    """

    def one(found: re.Match[str]) -> str:
        name = found[1]
        if name != "$" and name not in environ:
            missing.add(name)
        return "$" if name == "$" else environ.get(name, "")

    return _VARIABLE_PATTERN.sub(one, text)
