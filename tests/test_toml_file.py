"""The lines of keys in a TOML file, and how its problems are reported."""

from __future__ import annotations

import pytest

from bot.toml_file import (
    FileProblems,
    KeyPath,
    TomlLineIndex,
    TomlSyntaxError,
    format_key_name,
    parse_toml,
)

TEXT = '''title = "x"

[defaults]
text = """
rule = "not a key"
"""

[[rule]]
name = "one"

[[rule]]
name = "two"
"quoted" = 2
'''


@pytest.mark.parametrize(
    ("loc", "line"),
    [
        (("title",), 1),
        (("defaults", "text"), 4),
        (("rule", 0, "name"), 9),
        (("rule", 1), 11),
        (("rule", 1, "quoted", 0), 13),
        (("rule", 1, "absent"), 11),
        (("absent",), 1),
    ],
)
def test_a_key_is_found_at_its_line(loc: KeyPath, line: int) -> None:
    """A key that is missing leads to its table."""
    assert TomlLineIndex(TEXT).get_line(loc) == line


def test_problems_are_listed_in_the_order_of_the_file() -> None:
    """Each names file, line and key."""
    problems = FileProblems("p.toml", TEXT)
    assert not problems
    problems.add(("rule", 1, "name"), "is taken")
    problems.add(("defaults", "text"), "is too long")
    assert problems
    assert problems.list_sentences() == [
        "p.toml:4: [defaults] text: is too long",
        "p.toml:12: rule 2 name: is taken",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a = 1\nb = \nc = 3", 2),
        ("a = 1\nb = [1,\n\n", 2),
        (f"a = 1\nb = {'9' * 5000}\nc = 3", 2),
        (f"a = 1\nb = {'[' * 5000}\nc = 3", 2),
    ],
)
def test_a_syntax_error_is_reported_at_its_line(text: str, line: int) -> None:
    """The line that the parser names, the last one that is not blank, or the longest."""
    problems = FileProblems("p.toml", text)
    with pytest.raises(TomlSyntaxError) as caught:
        parse_toml(text)
    problems.add_syntax_error(caught.value)
    [sentence] = problems.list_sentences()
    assert sentence.startswith(f"p.toml:{line}: this is not TOML: ")


def test_keys_are_named_as_their_author_would() -> None:
    """Entries count from one; tables are in brackets."""
    assert [
        format_key_name(each) for each in (("rule", 1, "when"), ("defaults", "veto"), ("rules",))
    ] == [
        "rule 2 when",
        "[defaults] veto",
        "rules",
    ]
