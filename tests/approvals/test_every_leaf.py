"""What you see is what runs: every leaf of the JSON is in what approvers are shown.

The tools are random, of every source; `make test-variants` tries more of them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from pydantic import ValidationError

from bot.approvals.call_checks import TOO_LONG_TO_SHOW_ERROR, explain_incomplete_display
from bot.cards.button_codec import CallTarget
from bot.cards.card import render_card
from bot.cards.edit_form import (
    ParsedEdit,
    find_first_unshown_argument_path,
    iterate_json_leaves,
    parse_edit_submission,
    render_edit_dialog,
)
from bot.cards.field_values import list_argument_values, mark_displayed_values
from bot.cards.review_dialog import render_review_dialog
from bot.cards.slack_text import fold_lookalike_characters
from bot.tools import Tool
from bot.tools.arguments import build_readable_arguments, dump_arguments, load_arguments
from bot.tools.runner import mask_call_secrets
from slack_sandbox.blockkit.inputs import states
from tests.approvals.every_leaf import Maker, Sample, texts
from tests.messages.cards_support import NOW, REFUND, view
from tests.messages.fields_support import changed_values

SOURCES = ("program", "server", "python", "form")
PART = re.compile(r"\(part \d+ of \d+\):$")
# split so that no test takes long; `make test` runs the first part alone
PARTS = (0, *(pytest.param(each, marks=pytest.mark.long) for each in range(1, 4)))
MANY = int(os.environ.get("COUNTERSIGN_TEST_LEAVES", "600")) // len(PARTS)  # tools in each part


def make_samples(source: str, part: int) -> Iterator[tuple[Sample, str]]:
    """Random samples, each with the JSON that would run."""
    taken = 0
    for seed in range(2 * MANY * part, 2 * MANY * (part + 1)):
        sample = Maker(seed).sample(source)
        try:
            stored = dump_arguments(load_arguments(sample.tool, sample.given))
        except ValidationError:  # a key is the name of another field
            continue
        taken += 1
        yield sample, stored
        if taken == MANY:
            return
    pytest.fail(f"only {taken} samples could be made")


def list_unique_texts(stored: str) -> set[str]:
    """The texts in the JSON that occur nowhere else."""
    found = (
        value for _, value in iterate_json_leaves(json.loads(stored)) if isinstance(value, str)
    )
    return {value for value in found if value.startswith("leaf")}


def is_shown_in(leaf: str, shown: list[str]) -> bool:
    """Whether a text is among those shown, whole or in the parts of a long one; headings stand
    between the parts, which may begin within a word.
    """
    word, whole = leaf[:9], "".join(text for text in shown if not PART.search(text))
    return whole.count(word) >= max(1, leaf.count(word) - 2)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("source", SOURCES)
def test_every_leaf_is_shown_or_nobody_is_asked(source: str, part: int) -> None:
    """Review shows it always, and the card if it has Approve, also what the effect sentence
    contains; neither shows a secret.
    """
    chance, folded = Random(part), 0
    for sample, stored in make_samples(source, part):
        tool, args = _add_effect(sample.tool, chance), load_arguments(sample.tool, stored)
        why = explain_incomplete_display(tool, stored, {})
        assert why in ("", TOO_LONG_TO_SHOW_ERROR), (why, stored)
        if why:
            continue
        rows = list_argument_values(tool, build_readable_arguments(tool, stored))
        rows = mark_displayed_values(tool, args, rows)
        call = replace(REFUND, effect=tool.effect_sentence(args), values=rows)
        review = list(texts(render_review_dialog(call)["blocks"]))
        drawn = render_card(view(call), NOW).blocks
        on_card = list(texts(drawn))
        wanted = list_unique_texts(stored) - sample.secrets
        assert all(is_shown_in(leaf, review) for leaf in wanted), stored
        if "Approve" in on_card:
            assert all(is_shown_in(leaf, on_card) for leaf in wanted), stored
            labels = [f"{row.label}:" for row in rows if row.is_in_effect]
            folded += sum(all(each not in text for text in on_card) for each in labels)
        looks = [
            "".join(
                char if char.isascii() else fold_lookalike_characters(char) for char in row.label
            )
            for row in rows
        ]
        assert len(set(looks)) == len(rows), looks
        for secret in sample.secrets:
            everything = [*review, *on_card, json.dumps(tool.mask_arguments(json.loads(stored)))]
            assert not any(secret in text for text in everything), (secret, stored)
    assert folded > 10 or source == "server"  # its effect sentences are not by its author


def _add_effect(tool: Tool[Any], chance: Random) -> Tool[Any]:
    """The tool with an effect sentence of its author's that contains some of its arguments."""
    around = (
        "{{{}}}",
        "“{{{}}}”",
        "to {{{}}}, ",
        " {{{}}}-",
        "{{{}!r}}",
        "{{{}:>9}}",
        "x{{{}}}",
        "",
    )
    fields = [chance.choice(around).format(name) for name in tool.arguments.model_fields]
    return replace(tool, effect=f"Act on it: {chance.choice((' ', ', ', '')).join(fields)}")


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("source", SOURCES)
def test_the_check_finds_any_row_key_or_text_left_out(source: str, part: int) -> None:
    """A card that lacks it could hide what runs."""
    for sample, stored in make_samples(source, part):
        tool, runs = sample.tool, json.loads(stored)
        as_read, paths = build_readable_arguments(tool, stored), tool.list_secret_paths(runs)
        rows = list_argument_values(tool, as_read)
        assert find_first_unshown_argument_path(runs, as_read, rows, paths) is None, stored
        there = {path[: len(row.path)] for path, _ in iterate_json_leaves(runs) for row in rows}
        for index, row in enumerate(rows):
            if row.path not in there or not runs:
                continue
            fewer = [*rows[:index], *rows[index + 1 :]]
            assert find_first_unshown_argument_path(runs, as_read, fewer, paths) is not None, (
                row,
                stored,
            )
            for leaf in list_unique_texts(stored) - sample.secrets:
                if leaf in row.text:
                    cut = replace(row, text=row.text.replace(leaf, leaf[:-1]))
                    others = [*rows[:index], cut, *rows[index + 1 :]]
                    assert (
                        find_first_unshown_argument_path(runs, as_read, others, paths) is not None
                    ), (
                        row,
                        stored,
                    )


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("source", SOURCES)
def test_the_edit_dialog_shows_and_keeps_every_leaf(source: str, part: int) -> None:
    """Untouched values come back as they were; the dialog shows no secret."""
    for sample, stored in make_samples(source, part):
        tool, given = sample.tool, build_readable_arguments(sample.tool, stored)
        modal = render_edit_dialog(
            tool, given, target=CallTarget("call-1", 1), save_and_approve=False
        )
        shown = list(texts(modal["blocks"]))
        too_long = any("Too long to show" in text or "No room here" in text for text in shown)
        for leaf in list_unique_texts(stored) - sample.secrets:
            assert too_long or is_shown_in(leaf, shown), (leaf, stored)
        assert not any(secret in text for text in shown for secret in sample.secrets), stored
        state = states(modal["blocks"])
        parsed = parse_edit_submission(tool, given, state)
        assert isinstance(parsed, ParsedEdit), (parsed, stored)
        assert not parsed.changed, (parsed, stored)
        edited = _change_one_text(modal, state)
        if edited is None:
            continue
        parsed = parse_edit_submission(tool, given, edited)
        if not isinstance(parsed, ParsedEdit) or not parsed.changed:
            continue
        text = dump_arguments(load_arguments(tool, json.dumps(parsed.arguments)))
        before, after = (
            dict(iterate_json_leaves(json.loads(stored))),
            dict(iterate_json_leaves(json.loads(text))),
        )
        lost = {path for path in before if path not in after or before[path] != after[path]}
        assert len(lost) <= 1, (stored, text)
        assert after.keys() - before.keys() <= lost, (stored, text)
        assert len(changed_values(tool, given, build_readable_arguments(tool, text))) == 1
        assert explain_incomplete_display(tool, text, {}, before=stored) in (
            "",
            TOO_LONG_TO_SHOW_ERROR,
        )


def _change_one_text(modal: dict[str, Any], state: dict[str, Any]) -> dict[str, Any] | None:
    """The state after somebody changed one plain text in the dialog."""
    for block in modal["blocks"]:
        element = block.get("element", {})
        is_line = element.get("type") == "plain_text_input" and not element.get("multiline")
        if is_line and str(element.get("initial_value", "")).startswith("leaf"):
            changed = {element["action_id"]: {"value": "changed"}}
            return {**state, block["block_id"]: changed}
    return None


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("source", SOURCES)
def test_secrets_in_a_tools_texts_are_masked(source: str, part: int) -> None:
    """A preview is such a text."""
    for sample, stored in make_samples(source, part):
        args = load_arguments(sample.tool, stored)
        said = mask_call_secrets(sample.tool, args, f"I sent {sorted(sample.secrets)} on")
        assert not any(secret in said for secret in sample.secrets if secret in stored)
