"""What the audit keeps of arguments: all that people may read, and no secret."""

from __future__ import annotations

from storage import trail
from storage.models import Revision
from storage.store import Store
from tests.storage.builders import AT


def test_secret_fields_are_kept_by_digest(store: Store) -> None:
    """A secret is told from another only within its call, by who has the key; the rest stays."""

    def kept(call: str, pin: str) -> dict[str, str]:
        text = f'{{"order":"1042","pin":"{pin}"}}'
        row = Revision(call_id=call, number=1, arguments=text, digest="d", author="agent")
        row.created_at = AT
        with store.read() as tx:
            found: dict[str, str] = trail.build_revision_evidence(tx, row, {"pin"})["arguments"]
        return found

    assert kept("one", "1234")["order"] == "1042"
    assert "1234" not in str(kept("one", "1234"))
    assert kept("one", "1234") == kept("one", "1234")
    others = [kept("one", "1235"), kept("two", "1234")]
    assert all(each["pin"] != kept("one", "1234")["pin"] for each in others)


def test_refused_arguments_are_kept(store: Store) -> None:
    """Also what nobody was asked about; what cannot be read is not told where it may be secret."""
    with store.read() as tx:
        assert trail.build_refusal_evidence(tx, "c", '{"a": 1}', ())["arguments"] == {"a": 1}
        assert trail.build_refusal_evidence(tx, "c", "{oops", ())["arguments"] == "{oops"
        assert (
            trail.build_refusal_evidence(tx, "c", "{oops", {"pin"})["arguments"] == "5 characters"
        )
