"""What the message of a question shows, made of rows; drawn by `bot.messages.questions.message`."""

from __future__ import annotations

import json
from datetime import datetime

from bot.approvals.cards.absence import still_away
from bot.approvals.cards.origin import errands_of
from bot.approvals.questions.rows import read, server_of
from bot.messages.questions.said import in_words
from bot.messages.questions.view import QuestionView
from bot.messages.sentences.agents import who_asks
from bot.tools import Registry
from storage import outbox, person_answers
from storage.masking import masked
from storage.models import Message
from storage.states import RunSource
from storage.transaction import Transaction


def question_view(
    tools: Registry, tx: Transaction, row: Message, now: datetime
) -> QuestionView | None:
    """Return what the message of a question shows now; None where it cannot be read."""
    body = outbox.body(row)
    found = read(tx, body["calls"][0]) if body["calls"] else None
    if found is None:
        return None
    call, answer = found.call, person_answers.given(tx, found.call.id)
    given = json.loads(answer.given) if answer and not answer.declined else {}
    lines = in_words(found.asked, given) if given else ()
    hidden = masked(found.asked.question)
    errands, server, amid = errands_of(tools, tx, found.run), "", ""
    if found.run.source is RunSource.SERVER and errands:  # what it asks amid is no errand
        server, amid, errands = server_of(found.run), errands[-1].what, errands[:-1]
    return QuestionView(
        id=call.id,
        revision=call.revision,
        asked=found.asked.model_copy(update={"question": hidden}),
        status=call.status,
        run=found.run.id,
        requester=found.run.requester,
        users=found.people.users,
        group=next(iter(body["groups"].values()), ""),
        deadline=call.deadline,
        origin=body.get("origin", ""),
        answered_by=answer.person if answer else "",
        answered_at=answer.created_at if answer else None,
        lines=tuple(
            (label, masked(text), masked(before) if before else None)
            for label, text, before in lines
        ),
        declined=answer is not None and answer.declined,
        errands=errands,
        asker=who_asks(
            found.run.source, server or found.run.client, errands[-1].agent if errands else ""
        ),
        server=server,
        amid=amid,
        away=tuple(still_away(body.get("away", {}), now)),
    )
