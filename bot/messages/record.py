"""What people are told of the record itself."""

from __future__ import annotations


def put_back(waits: bool) -> str:
    """Return what a thread is told whose request was under way in a record that was put back."""
    text = "My record was put back from an older copy. What became of this request since is not "
    return text + (
        "known, so what was open is asked again. Look first whether it was done already."
        if waits
        else "known, so I stop here. Look what was done, and ask again for what is still wanted."
    )


def not_taken_up() -> str:
    """Return what somebody is told whose message or click was not dealt with before that."""
    return (
        "My record was put back from an older copy, so what you last did here may not count. "
        "Look whether it was done, and do it again if not."
    )
