"""Labels of a question that pass for an approval are found, however they are written."""

from __future__ import annotations

import pytest

from bot.cards.phrases import find_approval_request_words

WIDE = "".join(chr(ord(each) + 0xFEE0) for each in "Approve")
BOLD = "".join(chr(0x1D41A + ord(each) - ord("a")) for each in "approve")
CIRCLED = "".join(chr(0x24D0 + ord(each) - ord("a")) for each in "approve")
VARIANTS = [
    *(
        f"{mark} Approve"
        for mark in ("✅", "☑️", "✔", "👍🏽", "🟢", "➡️", "⚠️", "🇩🇪", "▶", "★", "©", "🆗")
    ),
    *(f"Approve {mark}" for mark in ("✅", "👍", "🎉", "!", "…", "→")),
    *("✅Approve", "👍Approve", "🟢🟢 approve 🟢", "• Approve", "- Approve", "1. Approve"),
    *(
        "Aрprove",
        "Аррrоvе",
        "Approvе",
        "Αpprove",
        "Αρρroνe",
        "ᴀᴘᴘʀᴏᴠᴇ",
        "Ꭺpprove".replace("Ꭺ", "А"),
    ),
    *("App\u200brove", "\u200bApprove"),
    *("A\u00adpprove", "Ap\u2060prove", "\u202eApprove\u202c"),
    *("Approve\ufe0f", "A\u0336p\u0336p\u0336r\u0336o\u0336v\u0336e\u0336"),
    *("Àpprové", "äpprove"),
    *(WIDE, BOLD, CIRCLED, f"✅ {WIDE}", f"👍 {BOLD}"),
    *("A p p r o v e", "A.p.p.r.o.v.e"),
    *("A-p-p-r-o-v-e", "A_p_p_r_o_v_e", "a  p  p  r  o  v  e"),
    *("✅ A p p r o v e", "✅ Аpprove", "А p p r о v e"),
    *("APPROVE", "aPPrOvE", "✅ Authorize", "✅ Authorise it", "👍 Go ahead", "✅ Countersign"),
    *(
        "✅ Genehmigen",
        "✅ Freigeben",
        "✅ Approuver",
        "✅ Autoriser",
        "✅ Aprobar",
        "✅ Approvare",
    ),
    *("✅ Aprovar", "✅ Goedkeuren", "Одобрить", "✅ Утвердить", "Zatwierdź", "✅ Schválit"),
    *(
        "Onayla",
        "✅ Godkänn",
        "Godkend",
        "Hyväksy",
        "承認",
        "✅ 批准",
        "승인",
        "موافقة",
    ),
]
INNOCENT = [
    *(
        "Yes",
        "No",
        "✅ Yes",
        "❌ No",
        "Blue",
        "🔵 Blue",
        "40 EUR",
        "Order 1042",
        "Berlin",
        "Москва",
    ),
    *("東京", "A B C", "S M L XL", "A.B.C. Ltd"),
    *("I do not know", "🤷 No idea", "Both", "Neither"),
    *("Tomorrow", "Ana", "Анна", "Αθήνα", "Refund", "Replacement", "𝐁𝐥𝐮𝐞", "Ｂｌｕｅ", "U S A"),
    *("Which colour?", "When was it approved?"),
    *("Who approved order 1042?", "批准编号", "承認番号"),
]


@pytest.mark.parametrize("label", VARIANTS, ids=ascii)
def test_a_label_that_asks_for_approval_is_found(label: str) -> None:
    """Marks, look-alike or hidden characters, spaces, widths and languages do not hide it."""
    assert find_approval_request_words(["Which one?", label])


@pytest.mark.parametrize("label", INNOCENT, ids=ascii)
def test_other_labels_are_not_refused(label: str) -> None:
    """Symbols and other scripts alone are no reason to refuse a label."""
    assert find_approval_request_words([label]) == ""


def test_the_tables_have_enough_labels_and_none_twice() -> None:
    """At least 60 that ask for approval and 20 others."""
    assert len(set(VARIANTS)) == len(VARIANTS) >= 60
    assert len(set(INNOCENT)) == len(INNOCENT) >= 20
