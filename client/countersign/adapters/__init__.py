"""Adapters for agent frameworks that keep their work while people decide, one module for each.

Each imports its framework, and names the package to install if that is missing.
"""

from __future__ import annotations


def build_missing_package_error(package: str) -> ImportError:
    """Return the ImportError to raise if a framework's package is not installed."""
    return ImportError(f"This needs another package: pip install '{package}'")
