"""`python -m bench.pictures`: takes the pictures of docs/pictures, light and dark.

Needs Chromium, its driver and the sandbox and dev extras. It changes nothing but
docs/pictures/*.png. Names (`program hook`) take only those pictures of programs, `moving`
only the moving picture of the README, `installing` only those of two workspaces.
"""

from __future__ import annotations

import sys

from bench.pictures import installing, moving, people, programs


def main() -> None:
    """Take all pictures in both themes, or those that are named."""
    if sys.argv[1:] == ["moving"]:
        moving.film_story()
        return
    for theme in ("light", "dark"):
        if sys.argv[1:] in ([], ["installing"]):
            installing.take_installing(theme)
        if sys.argv[1:] == ["installing"]:
            continue
        if not sys.argv[1:]:
            people.take_story(theme)
            people.take_home(theme)
        programs.take_programs(theme, sys.argv[1:] or list(programs.ALL))


if __name__ == "__main__":
    main()
