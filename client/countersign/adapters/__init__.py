"""Agents of other frameworks whose work is kept while people decide: a module for each framework.

Each imports its framework, and says which package that is where it is missing.
"""

from __future__ import annotations


def missing(package: str) -> ImportError:
    """Return what is raised where a framework's package is not installed."""
    return ImportError(f"This needs another package: pip install '{package}'")
