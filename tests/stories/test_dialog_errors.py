"""When Slack does not open a dialog, the person who clicked is told why and what to do."""

from __future__ import annotations

import pytest

from bot.slack_codes import TEMPORARY_ERROR_CODES, TOKEN_ERROR_CODES, UNKNOWN_OUTCOME_CODES
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import ask, press, told

TRIGGER_CODES = ("expired_trigger_id", "exchanged_trigger_id", "invalid_trigger_id")
RATE_LIMIT_CODES = ("ratelimited", "rate_limited")
# codes of views.open, views.push and views.update that say what is wrong with this dialog
DIALOG_SENTENCES = {
    **dict.fromkeys(TRIGGER_CODES, "in time"),
    **dict.fromkeys(RATE_LIMIT_CODES, "slow down"),
    "view_too_large": "fits into a Slack dialog",
    "hash_conflict": "changed in the meantime",
    "not_found": "was closed",
    "duplicate_external_id": "open already",
    "push_limit_reached": "Too many dialogs",
}
NO_RETRY_CODES = ("view_too_large", "duplicate_external_id", "push_limit_reached")
PERMANENT_CODES = (
    *("access_denied", "deprecated_endpoint", "enterprise_is_restricted", "invalid_arg_name"),
    *("invalid_array_arg", "invalid_charset", "invalid_form_data", "invalid_post_type", "is_bot"),
    *("invalid_arguments", "invalid_blocks", "method_deprecated", "missing_post_type"),
    *("missing_scope", "no_permission", "not_allowed_token_type", "unknown_method"),
)
SENTENCES = {
    **dict.fromkeys(PERMANENT_CODES, "Clicking again may not help"),
    **dict.fromkeys(TOKEN_ERROR_CODES, "refuses all my requests"),
    **dict.fromkeys(TEMPORARY_ERROR_CODES, "does not accept anything from me"),
    **dict.fromkeys(
        (*UNKNOWN_OUTCOME_CODES, "a_code_of_next_year"), "Something went wrong at Slack"
    ),
    **DIALOG_SENTENCES,
}


def test_every_error_of_slack_is_explained_to_the_person(harness: Harness) -> None:
    """It says that nothing was changed, and to click again only if that may help."""
    thread = ask(harness, ("note", {"text": "errors of dialogs"}))
    card = harness.card(SUPPORT, thread)
    for code, part in SENTENCES.items():
        harness.slack.faults.fail("views.open", code)
        press(harness, "ana", SUPPORT, card, "reject")
        said = told(
            harness, "ana", SUPPORT, thread, part if code in DIALOG_SENTENCES else f"({code})"
        )
        assert part in said
        assert "Nothing was changed" in said or code in TRIGGER_CODES
        assert ("lease click again" in said) is (
            code not in (*PERMANENT_CODES, *TOKEN_ERROR_CODES, *NO_RETRY_CODES)
        )


@pytest.mark.parametrize("status", [200, 302, 404, 500, 503])
def test_an_unusable_answer_of_slack_counts_as_none(harness: Harness, status: int) -> None:
    """Slack answers with an HTML page, a redirect or an outage. The dialog may be open
    nevertheless.
    """
    thread = ask(harness, ("note", {"text": f"no answer, {status}"}))
    card = harness.card(SUPPORT, thread)
    harness.slack.faults.status("views.open", status)
    press(harness, "ana", SUPPORT, card, "reject")
    assert "Nothing was changed" in told(harness, "ana", SUPPORT, thread, "Slack did not answer")
