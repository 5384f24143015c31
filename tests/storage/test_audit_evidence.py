"""What the audit keeps of arguments: all that people may read, and no secret."""

from __future__ import annotations

import json

from storage import trail
from storage.models import Audit, Revision
from storage.store import Store
from storage.transaction import iterate_rows
from tests.storage.builders import AT


def test_the_audit_keeps_only_digests_of_secret_fields(store: Store) -> None:
    """Within one call equal secrets have the same digest; in another call they do not."""

    def keep_arguments(call: str, pin: str) -> dict[str, str]:
        text = f'{{"order":"1042","pin":"{pin}"}}'
        row = Revision(call_id=call, number=1, arguments=text, digest="d", author="agent")
        row.created_at = AT
        with store.read() as tx:
            found: dict[str, str] = trail.build_revision_evidence(tx, row, {("pin",)})["arguments"]
        return found

    assert keep_arguments("one", "1234")["order"] == "1042"
    assert "1234" not in str(keep_arguments("one", "1234"))
    assert keep_arguments("one", "1234") == keep_arguments("one", "1234")
    others = [keep_arguments("one", "1235"), keep_arguments("two", "1234")]
    assert all(each["pin"] != keep_arguments("one", "1234")["pin"] for each in others)


def test_the_audit_keeps_refused_arguments(store: Store) -> None:
    """Text that cannot be read is left out if it may contain a secret."""
    with store.read() as tx:
        assert trail.build_refusal_evidence(tx, "c", '{"a": 1}', ())["arguments"] == {"a": 1}
        assert trail.build_refusal_evidence(tx, "c", "{oops", ())["arguments"] == "{oops"
        assert (
            trail.build_refusal_evidence(tx, "c", "{oops", {("pin",)})["arguments"]
            == "5 characters"
        )


def test_words_of_people_stand_where_a_purge_empties_them(store: Store) -> None:
    """Arguments, answers and reasons in free words; the bot's own fixed words stay in the row."""
    free = {"reason": "too dear", "why": "order 1042 of Ana", "refused": "no, Ana", "content": "hi"}
    said = {**free, "arguments": {"order": "1042"}, "tool": "note"}
    with store.write() as tx:
        trail.record_event(tx, "note", at=AT, actor="system", data=said)
        trail.record_event(tx, "note", at=AT, actor="system", data={"reason": "", "why": "lookup"})
    with store.read() as tx:
        first, second = iterate_rows(tx, Audit)
    assert json.loads(first.payload) == {**free, "arguments": {"order": "1042"}}
    assert not [each for each in ("1042", "dear", "Ana", "hi") if each in first.data]
    assert trail.get_audit_row_data(first) == said
    assert (second.payload, json.loads(second.data)) == ("", {"reason": "", "why": "lookup"})
