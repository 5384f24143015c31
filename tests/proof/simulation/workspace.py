"""The workspace of a world, and what marks it if two are in one process."""

from __future__ import annotations

from dataclasses import dataclass

from tests.storage.builders import TEAM

TEA = "T0TEAHOUSE"


@dataclass(frozen=True)
class Workspace:
    """One workspace; ids of channels, people and messages are the same in each."""

    team: str = TEAM
    bot: str = "BBOT00001"  # tells Slack's cards apart, so no two bots share it
    mark: str = ""  # ends every text written in it
    foreign: tuple[str, ...] = ()  # texts of the other one, which must not appear in it
    has_times_of_other: bool = False  # the n-th message of a day has the same timestamp in both

    def find_foreign(self, text: str) -> str:
        """Return a text of the other workspace found in this text; "" for none."""
        return next((each for each in self.foreign if each in text), "")


ALONE = Workspace()
_SHOP, _TEA = " in the shop", " at the tea house"
BOTH = (
    Workspace(mark=_SHOP, foreign=(TEA, _TEA), has_times_of_other=True),
    Workspace(TEA, "BBOT00002", _TEA, (TEAM, _SHOP), has_times_of_other=True),
)
