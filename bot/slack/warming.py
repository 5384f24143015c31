"""Looks people up together before a burst of deliveries is dealt with one by one."""

from __future__ import annotations

from bot.core import Core
from bot.slack.directory import SlackDirectory
from storage import inbox
from storage.models import Delivery


def warm(core: Core, directory: SlackDirectory, arrived: list[Delivery]) -> None:
    """Ask Slack, side by side, for everybody and every group that deciding these will need."""
    wanted = {
        ("person", each.user) for each in arrived if each.user and each.user != core.identity.user
    }
    if any(each.kind in inbox.CLICKS for each in arrived):
        for gate in core.policy.asks():
            wanted |= {("group", handle) for handle in gate.approvers.groups}
    directory.warm(wanted)
