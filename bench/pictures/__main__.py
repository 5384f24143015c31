"""`python -m bench.pictures`: all pictures of docs/pictures, light and dark.

Needs Chromium, its driver and the sandbox and dev extras. It changes nothing but
docs/pictures/*.png. With names (`program hook`), those of programs alone; with `moving`, the
moving picture of the README alone; with `installing`, those of many workspaces alone.
"""

from __future__ import annotations

import sys

from bench.pictures import installing, moving, people, programs


def main() -> None:
    """All of them in both looks, or those that are named."""
    if sys.argv[1:] == ["moving"]:
        moving.take()
        return
    for theme in ("light", "dark"):
        if sys.argv[1:] in ([], ["installing"]):
            installing.take(theme)
        if sys.argv[1:] == ["installing"]:
            continue
        if not sys.argv[1:]:
            people.take(theme)
            people.take_home(theme)
        programs.take(theme, sys.argv[1:] or list(programs.ALL))


if __name__ == "__main__":
    main()
