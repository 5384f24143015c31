"""How a request stands, as programs are told it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.http.api_bodies import RequestShown, ShownStatus
from storage.states import CallStatus

if TYPE_CHECKING:
    from bot.runs.program_requests import ProgramRequestStatus


def shown(standing: ProgramRequestStatus) -> RequestShown:
    """Return what a program is told of it."""
    is_entrusted = standing.status == CallStatus.ENTRUSTED
    status = CallStatus.RUNNING if is_entrusted else standing.status
    return RequestShown(
        id=standing.id,
        status=ShownStatus(str(status)),
        tool=standing.tool,
        title=standing.title,
        effect=standing.effect,
        arguments=standing.arguments or {},
        revision=standing.revision,
        digest=standing.digest,
        reason=standing.reason,
        requester=standing.requester,
        channel=standing.channel,
        link=standing.link,
        created_at=standing.created_at,
        deadline=standing.deadline,
        handed_over=standing.handed_over,
        decided_by=list(standing.decided_by),
        edited_by=list(standing.edited_by),
        result=standing.result,
        note=standing.note,
    )


def goes_on(standing: RequestShown) -> bool:
    """Whether a program that waits has nothing to do or to hear yet.

    A handed-over call that is approved waits for the program; any other runs by itself.
    """
    if standing.status is ShownStatus.APPROVED:
        return not standing.handed_over
    return standing.status in (
        ShownStatus.PREPARING,
        ShownStatus.PENDING,
        ShownStatus.RUNNING,
    )
