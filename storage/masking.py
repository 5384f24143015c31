"""Masks secrets that are known by their form: tokens, keys, passwords in addresses.

Only for display and for records about what happened. What is digested, given to tools or sent to
the model is never masked. Each pattern stops early if it cannot match, so the time grows linearly
with the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

ValuePath = tuple[str | int, ...]  # keys and list indexes that lead to a part of JSON data
MASK = "••••••••"  # always the same length, so that the secret's own stays unknown

_WORD_START = r"(?<![A-Za-z0-9])"  # no letter or digit before it
_CREDENTIAL_NAMES = (
    r"pass(?:word|wd|phrase)|pwd|secret(?:[_-]?(?:access[_-]?)?key)?|(?:access|api|private)[_-]?key"
)
_CREDENTIAL_NAMES += r"|(?:access|api|auth|bot|refresh|session)[_-]token"
# up to the value; the group stays open for a quote before the value
_ASSIGNMENT_PATTERN = rf"{_WORD_START}((?:{_CREDENTIAL_NAMES})[ \t]{{0,3}}=[ \t]{{0,3}}"
# Words (in lower case), one of which occurs in every match, and the pattern. A match keeps its
# first group, so that readers know what it was, and its last one, after the mask.
_PATTERNS_WITH_KEYWORDS: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (words, re.compile(pattern))
    for words, pattern in (
        (
            ("private key",),
            r"(-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----)[\s\S]+?(?=-----END|\Z)()",
        ),
        (("xox", "xapp-"), _WORD_START + r"((?:xoxe\.)?xox[abcdeprs]-|xapp-)[A-Za-z0-9%-]{8,}()"),
        (("hooks.slack",), r"(hooks\.slack(?:-gov)?\.com/[a-z]{1,20}/)[A-Za-z0-9/_-]{8,}()"),
        # API keys for Countersign itself
        (
            ("csk_",),
            _WORD_START + r"(csk_)[0-9a-f]{16}_[A-Za-z0-9_-]{20,}()",
        ),
        (("whsec_",), _WORD_START + r"(whsec_)[A-Za-z0-9+/=]{16,}()"),
        (("sk-",), _WORD_START + r"(sk-)(?=[A-Za-z_-]{0,64}[0-9])[A-Za-z0-9_-]{20,}()"),
        (("k_live_", "k_test_"), _WORD_START + r"([rs]k_(?:live|test)_)[A-Za-z0-9]{16,}()"),
        (("akia", "asia"), _WORD_START + r"(AKIA|ASIA)[A-Z0-9]{16}()(?![A-Za-z0-9])"),
        (("aiza",), _WORD_START + r"(AIza)[A-Za-z0-9_-]{35}()(?![A-Za-z0-9_-])"),
        (("github_pat_", "glpat-"), _WORD_START + r"(github_pat_|glpat-)[A-Za-z0-9_-]{20,}()"),
        (tuple(f"gh{kind}_" for kind in "pousr"), _WORD_START + r"(gh[pousr]_)[A-Za-z0-9]{20,}()"),
        (
            ("eyj",),
            r"(?<![A-Za-z0-9_-])(eyJ)[A-Za-z0-9_-]{8,}+\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]*()",
        ),
        (
            ("authorization",),
            r"(?i)\b((?:proxy-)?authorization[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?"
            r"\w{1,20}[ \t]{1,3})"
            r"[^\s\"',;“”]{8,}()",
        ),
        (
            ("bearer",),
            r"(?i)\b(bearer[ \t]{1,3})(?=[A-Za-z._~+/=-]{0,99}[0-9])[A-Za-z0-9._~+/=-]{16,}()",
        ),
        (("://",), r"(://[^\s/:@?#\"'<>]{0,100}:)[^\s/?#\"'<>]{1,200}(@)"),
        (("=",), rf"(?i){_ASSIGNMENT_PATTERN}\")[^\"\n]*+(\")"),
        (("=",), rf"(?i){_ASSIGNMENT_PATTERN}')[^'\n]*+(')"),
        (("=",), rf"(?i){_ASSIGNMENT_PATTERN})[^\s=&;,\"'“”][^\s&;,\"'“”]*+()"),
        (
            ('":', '" :'),
            rf"(?i)(\"[a-z0-9_-]{{0,40}}?(?:{_CREDENTIAL_NAMES})\"[ \t]{{0,3}}:[ \t]{{0,3}}\")"
            r"(?:[^\"\\\n]|\\.)++(\")",
        ),
    )
)

# A pattern with several words is tried for each of them; a mask is never masked again.
_KEYWORD_PATTERN_PAIRS = tuple(
    (word, pattern) for words, pattern in _PATTERNS_WITH_KEYWORDS for word in words
)
_MASKED_REPLACEMENT = rf"\1{MASK}\2"


def mask_secrets(text: str) -> str:
    """Return the text with each secret of a known form masked after its prefix: "xoxb-••••••••"."""
    low = text.lower()
    for word, pattern in _KEYWORD_PATTERN_PAIRS:
        if word in low:
            text = pattern.sub(_MASKED_REPLACEMENT, text)
    return text


def mask_secrets_in_json(value: Any) -> Any:
    """Return JSON data with the secrets in its strings masked; keys are unchanged."""
    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, dict):
        return {key: mask_secrets_in_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [mask_secrets_in_json(each) for each in value]
    return value


def replace_values_at_paths(
    value: Any, paths: Collection[ValuePath], stand_in: Callable[[ValuePath, Any], Any]
) -> Any:
    """Return JSON data with the values at these paths replaced by `stand_in(path, value)`.

    null values are not replaced.
    """
    return _replace_value(value, (), frozenset(paths), stand_in) if paths else value


def _replace_value(
    value: Any,
    at: ValuePath,
    paths: frozenset[ValuePath],
    stand_in: Callable[[ValuePath, Any], Any],
) -> Any:
    if at in paths:
        return None if value is None else stand_in(at, value)
    if isinstance(value, Mapping):
        return {
            key: _replace_value(each, (*at, key), paths, stand_in) for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_replace_value(each, (*at, n), paths, stand_in) for n, each in enumerate(value)]
    return value
