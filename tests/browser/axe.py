"""The accessibility checker: what axe has to say against what the page shows now."""

from __future__ import annotations

from axe_core_python.base import AXE_SCRIPT  # type: ignore[import-untyped]  # the package has no types

from .page import Page

RUN = """const [within, done] = arguments;
axe.run(within ?? document, {resultTypes: ["violations"]}).then((found) => done(found.violations));"""


def findings(page: Page, within: str | None = None) -> list[str]:
    """Each finding as "rule: selector of the node, and why", in the whole document or within one
    selector.
    """
    if not page.driver.execute_script("return Boolean(window.axe)"):
        page.driver.execute_script(AXE_SCRIPT)
    found = page.driver.execute_async_script(RUN, within)
    return [
        f"{v['id']}: {node['target']} {node.get('failureSummary', '')}"
        for v in found
        for node in v["nodes"]
    ]
