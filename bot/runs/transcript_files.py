"""Replaces file references in a transcript by the files when the model is asked.

A file that the model's server refuses is no longer sent, and the turn is taken without it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bot.agent import file_items, turn
from bot.clock import Clock
from storage import transcripts
from storage.record import Store

log = logging.getLogger("countersign.files")
_TEXT_BY_WITHHELD_REASON = {
    transcripts.WithheldReason.NO: "",
    transcripts.WithheldReason.DELETED: file_items.DELETED_FILE_TEXT,
    transcripts.WithheldReason.REFUSED: file_items.REFUSED_FILE_TEXT,
}


@dataclass(frozen=True, slots=True)
class FileInsertingPlanner:
    """A wrapper around the client of the model that fills files into the transcript first."""

    planner: turn.ModelPlanner
    store: Store
    clock: Clock

    def take_turn(
        self,
        transcript: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        instructions: str,
        sink: turn.AnswerSink,
    ) -> turn.Reply | turn.Proposal:
        """Ask the model for its next answer or calls, with files filled into the transcript.

        If the server refuses the request, it is repeated without new files. Raises PlannerError, or
        ModelRequestTooLongError, whose `without_files` repeats it without new files, and what
        `sink` raises.
        """
        files = self._load_referenced_files(transcript)
        fresh = [each for each in files.values() if not each.withheld and each.read_at is None]
        try:
            result = self.planner.take_turn(
                _fill_in_stored_files(transcript, files), tools, instructions, sink
            )
        except turn.ModelRequestRefusedError as error:
            # if there are no new ones, another model now refuses files that were accepted before
            doubted = fresh or [each for each in files.values() if not each.withheld]
            if not doubted:
                raise
            log.warning("the model is asked without %d files: %s", len(doubted), error)
            without = _fill_in_stored_files(transcript, files, {each.id for each in doubted})
            return self._take_turn_without_files(doubted, without, tools, instructions, sink)
        except turn.ModelRequestTooLongError as error:
            if not fresh:
                raise
            # the thread itself may be too long, and the caller may know how to shorten it
            without = _fill_in_stored_files(transcript, files, {each.id for each in fresh})
            again = partial(
                self._take_turn_without_files, fresh, without, tools, instructions, sink
            )
            raise turn.ModelRequestTooLongError(str(error), error.window, again) from error
        self._mark_files_accepted(fresh)
        return result

    def _take_turn_without_files(
        self,
        doubted: Sequence[transcripts.AttachedFile],
        transcript: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        instructions: str,
        sink: turn.AnswerSink,
    ) -> turn.Reply | turn.Proposal:
        """Ask the model without the `doubted` files; on success, they are never sent again."""
        sink.discard_text()
        result = self.planner.take_turn(transcript, tools, instructions, sink)
        self._mark_files_refused(doubted)
        return result

    @property
    def compaction_server_id(self) -> str:
        """Return the id of the model's server, which alone can read transcripts that it compacts.

        "" if it compacts none.
        """
        return self.planner.compaction_server_id

    def compact_items(
        self, items: Sequence[dict[str, Any]], instructions: str
    ) -> turn.CompactedItems | None:
        """Have the model's server compact these items; None if it cannot or does not."""
        return self.planner.compact_items(
            _fill_in_stored_files(items, self._load_referenced_files(items)), instructions
        )

    def close(self) -> None:
        """Close the planner; a turn under way fails."""
        self.planner.close()

    def _load_referenced_files(
        self, transcript: Iterable[dict[str, Any]]
    ) -> dict[str, transcripts.AttachedFile]:
        ids = file_items.list_referenced_file_ids(transcript)
        if not ids:
            return {}
        with self.store.read() as tx:
            return {each.id: each for each in transcripts.list_files_by_id(tx, ids)}

    def _mark_files_accepted(self, files: Sequence[transcripts.AttachedFile]) -> None:
        """Record that the model's server accepts these files."""
        if files:
            with self.store.write(durable=False) as tx:
                for each in files:
                    transcripts.mark_file_accepted(tx, each, self.clock.now())

    def _mark_files_refused(self, files: Sequence[transcripts.AttachedFile]) -> None:
        """Record that the model's server refuses these files; later turns leave them out."""
        with self.store.write(durable=False) as tx:
            for each in files:
                transcripts.withhold_file(
                    tx,
                    each,
                    transcripts.WithheldReason.REFUSED,
                    at=self.clock.now(),
                    actor="worker",
                )


def _fill_in_stored_files(
    transcript: Iterable[dict[str, Any]],
    files: dict[str, transcripts.AttachedFile],
    without: frozenset[str] | set[str] = frozenset(),
) -> list[dict[str, Any]]:
    shown = {
        name: file_items.EncodedFile(
            each.media,
            each.data,
            _TEXT_BY_WITHHELD_REASON[
                transcripts.WithheldReason.REFUSED if name in without else each.withheld
            ],
        )
        for name, each in files.items()
    }
    return file_items.replace_references_with_files(transcript, shown)
