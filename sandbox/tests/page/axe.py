"""The accessibility checker: the problems that axe finds in the page as it is shown."""

from __future__ import annotations

from collections.abc import Iterable

from axe_core_python.base import AXE_SCRIPT  # type: ignore[import-untyped]  # the package has no types

from .page import Page

LOOKS = [(theme, width) for theme in ("light", "dark") for width in (1280, 390)]
COLOURS = ["color-contrast", "link-in-text-block"]
RUN = """const [within, only, done] = arguments;
const wanted = {resultTypes: ["violations"], ...(only && {runOnly: only})};
axe.run(within ?? document, wanted).then((found) => done(found.violations));"""


def findings(page: Page, within: str | None = None, only: list[str] | None = None) -> list[str]:
    """Each finding as "rule: selector of the node, and why", in the document or one selector.

    `only`: the rules to check, or all if it is None.
    """
    if not page.driver.execute_script("return Boolean(window.axe)"):
        page.driver.execute_script(AXE_SCRIPT)
    found = page.driver.execute_async_script(RUN, within, only)
    return [
        f"{v['id']}: {node['target']} {node.get('failureSummary', '')}"
        for v in found
        for node in v["nodes"]
    ]


class Checked:
    """Collects what axe finds at each place, in each theme and width, for one assertion."""

    def __init__(self, page: Page) -> None:
        self.page, self.found = page, dict[str, list[str]]()
        still = {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
        # no colour is caught in the middle of a transition
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", still)

    def at(self, place: str, looks: Iterable[tuple[str, int]] = LOOKS) -> None:
        """Check the page in each look; in the dark theme only the rules about colours."""
        for theme, width in looks:
            self.page.size(width, 900)
            self.page.driver.execute_script(
                "document.documentElement.dataset.theme = arguments[0]", theme
            )
            if found := findings(self.page, only=COLOURS if theme == "dark" else None):
                self.found[f"{place}, {theme}, {width}"] = found
        self.page.size(1280, 900)
