"""The browser and the page of the sandbox's own tests."""

from __future__ import annotations

from sandbox.tests.page.conftest import driver, page

__all__ = ["driver", "page"]
