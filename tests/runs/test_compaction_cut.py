"""Whatever a transcript is like, a model's server accepts what is left of it after a cut."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.runs.compaction import cut_transcript
from bot.runs.turns import pair_calls_with_outputs
from storage.transcripts import Compaction, Transcript, _extend_transcript

Item = dict[str, Any]
STANDS: Item = {"role": "user", "content": "In short."}


@st.composite
def threads(draw: st.DrawFn) -> list[Item]:
    """People write, the model thinks, speaks and calls; outputs come at once, late or never."""
    items: list[Item] = []
    late: list[Item] = []
    for number in range(draw(st.integers(1, 7))):
        items += [make_message(f"m{number}")] * draw(st.integers(1, 2))
        for turn in range(draw(st.integers(0, 3))):
            calls = [f"c{number}.{turn}.{n}" for n in range(draw(st.integers(0, 3)))]
            if calls:
                items.append({"type": "reasoning", "id": calls[0], "of": calls})
            items += [{"type": "function_call", "call_id": each} for each in calls]
            for each in calls:
                when = draw(st.sampled_from(("now", "now", "late", "never")))
                if when != "never":
                    (items if when == "now" else late).append(make_output(each))
            if not calls:
                items.append({"role": "assistant", "content": f"a{number}.{turn}"})
        if draw(st.booleans()):
            items += late
            late = []
    return [*items, *late]


def make_message(words: str) -> Item:
    """A person's message."""
    return {"role": "user", "content": words}


def make_output(call_id: str) -> Item:
    """The output of a call."""
    return {"type": "function_call_output", "call_id": call_id, "output": f"of {call_id}"}


def make_transcript(items: Sequence[Item], *, had: Transcript | None = None) -> Transcript:
    """The transcript of these items, after those of `had`."""
    before = had or Transcript()
    rows = [(before.last_seq + 3 * n, json.dumps(each)) for n, each in enumerate(items, start=1)]
    return _extend_transcript(before, rows) if rows else before


def check_sent_items(thread: Transcript, on_record: frozenset[str]) -> None:
    """The items sent to the model are valid, and have all that must stay as it was."""
    sent = pair_calls_with_outputs(thread, meanwhile={})
    called = [each["call_id"] for each in sent if each.get("type") == "function_call"]
    told = [each["call_id"] for each in sent if each.get("type") == "function_call_output"]
    assert sorted(called) == sorted(told)
    assert len(set(called)) == len(called)
    assert on_record & thread.proposed_call_ids <= set(called)
    waiting: set[str] = set()
    for each in sent:
        if each.get("type") == "function_call":
            waiting.add(each["call_id"])
        elif each.get("type") == "function_call_output":
            assert each["call_id"] in waiting, "an output before its call"
            waiting.discard(each["call_id"])
        elif each.get("role") == "user":
            assert not waiting, "somebody goes on before an output"
        elif each.get("type") == "reasoning":
            assert set(each["of"]) <= set(called), "thoughts without their calls"
    led = {each for thought in sent if thought.get("type") == "reasoning" for each in thought["of"]}
    assert set(called) <= led, "calls without the thoughts that led to them"
    for each in sent:
        if (
            each.get("type") == "function_call_output"
            and each["call_id"] in thread.answered_call_ids
        ):
            assert each in thread.items, "not the output that there is"
    verbatim = {json.dumps(each) for each in thread.items}
    for each in sent:
        known = json.dumps(each) in verbatim or each in (STANDS, *sent[-1:])
        assert known or "UNKNOWN" in each.get("output", ""), "an item that nobody said"


@settings(max_examples=150, deadline=None)
@given(threads(), threads(), st.data())
def test_a_cut_transcript_is_valid_for_the_model(
    first: list[Item], more: list[Item], data: st.DataObject
) -> None:
    """This holds after one cut and after a second one on top of it, whichever calls must stay."""
    thread = make_transcript(first)
    on_record = data.draw(
        st.frozensets(st.sampled_from(sorted(thread.proposed_call_ids) or ["none"]))
    )
    most = st.integers(0, thread.size)
    found = cut_transcript(thread, None, on_record, data.draw(most))
    if found is None:
        return
    assert found.replaced_characters > 0
    made = Compaction(found.until_seq, found.kept_seqs, (STANDS,))
    thread = replace(thread, compactions=(made,))
    open_then = thread.proposed_call_ids - thread.answered_call_ids
    check_sent_items(thread, on_record | open_then)
    assert first[-1] in thread.list_items_for_model("")
    lacking = sorted(thread.proposed_call_ids - thread.answered_call_ids)
    come = [make_output(each) for each in lacking if data.draw(st.booleans())]
    renamed = come + json.loads(re.sub(r'"([cm])(?=\d)', r'"later \1', json.dumps(more)))
    thread = make_transcript(renamed, had=thread)
    check_sent_items(thread, on_record | open_then)
    again = cut_transcript(thread, made, on_record, data.draw(most))
    if again is not None:
        assert again.items_to_replace[0] == STANDS
        assert again.until_seq > made.until_seq
        made = Compaction(again.until_seq, again.kept_seqs, (STANDS,))
        check_sent_items(replace(thread, compactions=(*thread.compactions, made)), on_record)


def test_the_newest_request_and_decided_calls_survive_a_cut() -> None:
    """They do however little room there is; other look-ups are dropped."""
    items: list[Item] = []
    for name in ("looked", "asked"):
        items += [
            make_message(f"first {name}"),
            {"type": "function_call", "call_id": name},
            {"type": "function_call_output", "call_id": name, "output": name},
        ]
    items += [{"role": "assistant", "content": "Done."}, make_message("And now?")]
    items += [{"type": "function_call", "call_id": f"more{n}"} for n in range(3)]
    items += [
        {"type": "function_call_output", "call_id": f"more{n}", "output": "x" * 90}
        for n in range(3)
    ]
    thread = make_transcript(items)
    found = cut_transcript(thread, None, frozenset({"asked"}), 0)
    assert found is not None
    sent = replace(
        thread, compactions=(Compaction(found.until_seq, found.kept_seqs, (STANDS,)),)
    ).list_items_for_model("")
    assert sent == [STANDS, *items[4:6], *items[7:]]
    assert (
        cut_transcript(thread, None, frozenset({"looked", "asked", "more0"}), thread.size)
        is not None
    )


def test_a_compaction_sealed_by_another_server_is_not_sent() -> None:
    """All items are sent instead."""
    thread = make_transcript(
        [make_message("one"), {"role": "assistant", "content": "two"}, make_message("three")]
    )
    sealed = Compaction(6, frozenset(), (STANDS,), seal="https://there/v1/")
    thread = replace(thread, compactions=(sealed,))
    assert thread.list_items_for_model("https://there/v1/") == [STANDS, thread.items[-1]]
    assert (
        thread.list_items_for_model("")
        == thread.list_items_for_model("https://here/v1/")
        == list(thread.items)
    )
