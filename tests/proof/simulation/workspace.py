"""Which workspace a world is: what it has of its own where two are at one process."""

from __future__ import annotations

from dataclasses import dataclass

from tests.storage.builders import TEAM

TEA = "T0TEAHOUSE"


@dataclass(frozen=True)
class Workspace:
    """One workspace; ids of channels, people and messages are the same in each."""

    team: str = TEAM
    bot: str = "BBOT00001"  # by which Slack says whose a card is, so no two bots have the same
    mark: str = ""  # at the end of everything that is written in it
    foreign: tuple[str, ...] = ()  # what may stand nowhere in it, as it is the other's
    has_times_of_other: bool = False  # the n-th message of a day has one time in both

    def find_foreign(self, text: str) -> str:
        """Return what there is of the other's in a text; "" for nothing."""
        return next((each for each in self.foreign if each in text), "")


ALONE = Workspace()
_SHOP, _TEA = " in the shop", " at the tea house"
BOTH = (
    Workspace(mark=_SHOP, foreign=(TEA, _TEA), has_times_of_other=True),
    Workspace(TEA, "BBOT00002", _TEA, (TEAM, _SHOP), has_times_of_other=True),
)
