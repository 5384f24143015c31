"""What the audit keeps of arguments: all that people may read, and no secret."""

from __future__ import annotations

from storage import trail
from storage.models import Revision
from storage.store import Store
from tests.storage.builders import AT


def test_the_audit_keeps_only_digests_of_secret_fields(store: Store) -> None:
    """Within one call equal secrets have the same digest; in another call they do not."""

    def keep_arguments(call: str, pin: str) -> dict[str, str]:
        text = f'{{"order":"1042","pin":"{pin}"}}'
        row = Revision(call_id=call, number=1, arguments=text, digest="d", author="agent")
        row.created_at = AT
        with store.read() as tx:
            found: dict[str, str] = trail.build_revision_evidence(tx, row, {"pin"})["arguments"]
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
            trail.build_refusal_evidence(tx, "c", "{oops", {"pin"})["arguments"] == "5 characters"
        )
