"""What everybody who sees a card may read of a call: less than those who decide, where it must be.

Pure. What looks like a secret is masked, and a tool may have its preview told otherwise. Nobody
decides from this: where it covers anything, the card has Review in the place of Approve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bot.messages.pieces import PieceKind, label_of, listed
from bot.messages.views import CallView, Value
from storage.masking import masked


def for_onlookers(call: CallView, preview: str | None = None) -> CallView:
    """Return the call as everybody may read it; `preview`: what stands in its preview's place."""
    return replace(
        call,
        effect=masked(call.effect),
        values=tuple(map(_masked, call.values)),
        preview=masked(call.preview if preview is None else preview),
        agent_reason=masked(call.agent_reason),
    )


def covered(whole: CallView, seen: CallView) -> tuple[str, ...]:
    """Name what of the `whole` call is not as it stands in what onlookers have `seen`."""
    names = [PieceKind.SENTENCE] if whole.effect != seen.effect else []
    pairs = zip(whole.values, seen.values, strict=True)
    found = [*names, *(label_of(one) for one, other in pairs if one != other)]
    found += [PieceKind.PREVIEW] if whole.preview != seen.preview else []
    found += [PieceKind.REASON] if whole.agent_reason != seen.agent_reason else []
    return tuple(found)


def revealed(names: Sequence[str]) -> str:
    """Tell who opens a dialog that it shows more than the card; `names` from `covered`."""
    return (
        f"🔓 The card does not show all of {listed(names)}. It is shown here because you may "
        "decide or edit this, and it is written down that you saw it."
    )


def _masked(value: Value) -> Value:
    before = None if value.before is None else masked(value.before)
    text = masked(value.text)
    is_whole = (text, before) == (value.text, value.before)
    return value if is_whole else replace(value, text=text, before=before)
