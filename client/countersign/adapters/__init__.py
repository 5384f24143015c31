"""Adapters for agent frameworks that keep their work while people decide, one module for each.

Each imports its framework, and names the package to install if that is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from countersign.decorated import request_approval
from countersign.request import Request


def build_missing_package_error(package: str) -> ImportError:
    """Return the ImportError to raise if a framework's package is not installed."""
    return ImportError(f"This needs another package: pip install '{package}'")


def request_if_valid(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Request | None:
    """Ask people to approve a call; None if its arguments do not fit.

    The framework may then call the function, which says to the model what is wrong with them, and
    does nothing.
    """
    try:
        return request_approval(function, arguments)
    except (ValueError, TypeError):  # pydantic.ValidationError is a ValueError
        return None
