"""The Slack tools that post, over the wire: a real WebClient against the local Slack."""

from __future__ import annotations

import http.client
import json
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import ValidationError
from slack_sdk import WebClient

from bot.slack.directory import SlackDirectory
from bot.tools import ToolError
from bot.tools.runner import LostToolAnswer, ToolFailure
from bot.tools.slack_lookup import ERROR_TEXT_BY_CODE, ERROR_TEXT_BY_CODE_PREFIX
from bot.tools.slack_tools import EVENT_TYPE, build_slack_tools
from slack_sandbox.server import Sandbox
from tests.tools import NAMING, Tools, context, preview, use
from tests.tools.harness import calls, outcome, posted

SIGNED = "\n_Sent for <@UBEN00001> by Countersign_"


class TestPost:
    def test_posts_text_and_signs_it(self, slack: Sandbox, chat: Tools) -> None:
        """The message is text with its signature.

        It carries the call's id where a repeat can be found by it.
        """
        result = use(chat["post_message"], {"channel": "#general", "text": "Back in *stock*."})
        [message] = posted(slack, "#general")
        assert message["text"] == "Back in *stock*." + SIGNED
        assert result == {"channel": "#general", "channel_id": "C0GENERAL", "ts": message["ts"]}
        [sent] = calls(slack, "chat.postMessage")
        assert sent["metadata"] == {
            "event_type": EVENT_TYPE,
            "event_payload": {"call_id": "call-1"},
        }

    def test_cannot_pass_for_a_card_or_call_anybody(self, slack: Sandbox, chat: Tools) -> None:
        """No blocks, no attachments, no unfurling.

        Mentions, broadcasts and disguised links are plain words.
        """
        text = (
            "<!channel> <@UANA00001> <!subteam^S0LEADS> <https://x.example|Approve> & <#C0FINANCE>"
        )
        use(chat["post_message"], {"channel": "#general", "text": text})
        [sent] = calls(slack, "chat.postMessage")
        assert "blocks" not in sent
        assert "attachments" not in sent
        assert sent["text"].removesuffix(SIGNED) == (
            "&lt;!channel&gt; &lt;@UANA00001&gt; &lt;!subteam^S0LEADS&gt; "
            "&lt;https://x.example|Approve&gt;"
            " &amp; &lt;#C0FINANCE&gt;"
        )
        off = [sent[name] for name in ("unfurl_links", "unfurl_media", "link_names", "parse")]
        assert off == [False, False, False, "none"]
        assert slack.person("ana").notifications() == []

    @pytest.mark.parametrize(
        "wanted", ["#general", "general", "#General", "C0GENERAL", "<#C0GENERAL>", "<#C0GENERAL|g>"]
    )
    def test_channels_by_any_name(self, chat: Tools, wanted: str) -> None:
        """However the channel is written, the card says which one is meant."""
        shown = preview(chat["post_message"], channel=wanted, text="x")
        assert shown.startswith("→ #general (C0GENERAL)")

    @pytest.mark.parametrize("wanted", ["@ana", "UANA00001", "<@UANA00001>", "DANA00001"])
    def test_never_into_direct_messages(self, slack: Sandbox, chat: Tools, wanted: str) -> None:
        """The bot does not write to people behind others' backs."""
        slack.person("ana").open_dm()
        with pytest.raises(ToolError, match="direct messages are not possible"):
            use(chat["post_message"], {"channel": wanted, "text": "x"})
        with pytest.raises(ToolError, match="direct messages are not possible"):
            preview(chat["post_message"], channel=wanted, text="x")

    def test_shared_channels_need_a_clear_word(self, slack: Sandbox, chat: Tools) -> None:
        """Where another company reads along, that must be asked for and is shown."""
        values = {"channel": "#partners", "text": "Prices rise."}
        with pytest.raises(ToolError, match="shared with another company"):
            use(chat["post_message"], values)
        with pytest.raises(ToolError, match="shared with another company"):
            preview(chat["post_message"], **values)
        assert "another company will read it" in preview(
            chat["post_message"], **values, external_ok=True
        )
        use(chat["post_message"], {**values, "external_ok": True})
        assert len(posted(slack, "#partners")) == 1

    def test_private_channels_only_for_who_is_in_them(self, slack: Sandbox, chat: Tools) -> None:
        """The bot is no way into a private channel for somebody who is not in it."""
        values = {"channel": "#finance-approvals", "text": "x"}
        with pytest.raises(ToolError, match="no channel #finance-approvals that the bot and the"):
            use(chat["post_message"], values)
        use(chat["post_message"], values, context(requester="UCLEO0001"))
        assert len(posted(slack, "#finance-approvals")) == 1

    @pytest.mark.parametrize("channel", ["#nowhere", "C0NOWHERE1"])
    def test_unknown_channels_are_named(self, chat: Tools, channel: str) -> None:
        """The model hears what was not found."""
        with pytest.raises(ToolError, match=f"There is no channel {channel} that the bot and"):
            use(chat["post_message"], {"channel": channel, "text": "x"})

    def test_an_archived_channel_is_named(self, slack: Sandbox, chat: Tools) -> None:
        """An archived channel is named as such when it is given by id."""
        slack.archive("#general")
        with pytest.raises(ToolError, match=r"^#general is archived\.$"):
            use(chat["post_message"], {"channel": "C0GENERAL", "text": "x"})
        with pytest.raises(ToolError, match=r"^#general is archived\.$"):
            preview(chat["post_message"], channel="C0GENERAL", text="x")

    @pytest.mark.parametrize("text", ["", "  \n", "x" * 3001])
    def test_odd_texts_are_refused_by_the_type(self, chat: Tools, text: str) -> None:
        """Blank and too long messages never reach a person."""
        with pytest.raises(ValidationError):
            chat["post_message"].arguments.model_validate({"channel": "#general", "text": text})


class TestWhatSlackAnswers:
    values: ClassVar[dict[str, Any]] = {"channel": "C0GENERAL", "text": "x"}

    @pytest.mark.parametrize(
        ("code", "words"),
        [
            (
                "not_in_channel",
                "The bot is not in #general; somebody there has to invite it first.",
            ),
            ("is_archived", "#general is archived."),
            ("restricted_action_read_only_channel", "The settings of #general do not allow that."),
            ("token_revoked", "Slack no longer lets the bot in (token_revoked)."),
            ("invalid_metadata", "Slack refused (invalid_metadata)."),
        ],
    )
    def test_a_refusal_is_a_sentence(
        self, slack: Sandbox, chat: Tools, code: str, words: str
    ) -> None:
        """Where Slack says no, nothing happened and the model hears why."""
        slack.faults.fail("chat.postMessage", code)
        assert outcome(chat["post_message"], self.values) == ToolFailure(words)

    def test_too_many_requests(self, slack: Sandbox, chat: Tools) -> None:
        """Slack's 429 is a refusal as well, with the time to wait."""
        slack.faults.rate_limit("chat.postMessage", 7)
        assert outcome(chat["post_message"], self.values) == ToolFailure(
            "Slack asks to slow down; try again in 7 seconds."
        )
        slack.faults.status("chat.postMessage", 429)
        assert outcome(chat["post_message"], self.values) == ToolFailure(
            "Slack asks to slow down; try again in some seconds."
        )

    @pytest.mark.parametrize(
        "code",
        [
            "internal_error",
            "fatal_error",
            "service_unavailable",
            "request_timeout",
            "a_code_that_nobody_listed",
        ],
    )
    def test_slacks_own_failures_leave_it_open(
        self, slack: Sandbox, chat: Tools, code: str
    ) -> None:
        """An error in which Slack may have acted is unknown, not failed."""
        slack.faults.fail("chat.postMessage", code)
        assert isinstance(outcome(chat["post_message"], self.values), LostToolAnswer)

    @pytest.mark.parametrize("status", [500, 503])
    def test_a_status_without_an_answer_leaves_it_open(
        self, slack: Sandbox, chat: Tools, status: int
    ) -> None:
        """The same for a 5xx without a body."""
        slack.faults.status("chat.postMessage", status)
        assert isinstance(outcome(chat["post_message"], self.values), LostToolAnswer)

    def test_a_cut_connection_leaves_it_open(self, slack: Sandbox, chat: Tools) -> None:
        """A post whose answer was lost has happened: it is not told as failed or tried again."""
        slack.faults.drop("chat.postMessage", when="after")
        assert isinstance(outcome(chat["post_message"], self.values), LostToolAnswer)
        assert len(posted(slack, "#general")) == 1
        slack.faults.drop("chat.postMessage", when="before")
        with pytest.raises((OSError, http.client.HTTPException)):
            use(chat["post_message"], self.values)
        assert len(calls(slack, "chat.postMessage")) == 2

    def test_a_cut_look_up_is_certain(self, slack: Sandbox, chat: Tools) -> None:
        """Before the post nothing has happened: a failed look-up of the channel refuses."""
        NAMING.set(None)
        slack.faults.drop("conversations.info")
        refused = outcome(chat["post_message"], self.values)
        assert isinstance(refused, ToolFailure)
        assert refused.certain
        assert posted(slack, "#general") == []

    def test_a_missing_permission_is_named(self) -> None:
        """The operator learns which scope the app lacks."""
        NAMING.set(None)
        scopes = ["channels:read", "groups:read", "users:read"]
        with Sandbox(manifest={"oauth_config": {"scopes": {"bot": scopes}}}) as slack:
            client = WebClient(
                slack.bot_token, base_url=slack.api_url, timeout=10, retry_handlers=[]
            )
            found = {
                tool.name: tool
                for tool in build_slack_tools(client, SlackDirectory(client, slack.clock))
            }
            assert outcome(found["post_message"], self.values) == ToolFailure(
                "The bot lacks the Slack permission chat:write."
            )


def test_every_sentence_is_for_a_code_that_slack_has() -> None:
    """A misspelt code would never be met, so each is one that Slack documents for a method here."""
    listed = Path(__file__).parents[3] / "shared" / "fixtures" / "slack_methods.json"
    if not listed.exists():
        pytest.skip("Slack's method reference is not beside the repository")
    methods = json.loads(listed.read_text())
    used = (
        "chat.postMessage",
        "chat.scheduleMessage",
        "conversations.create",
        "conversations.invite",
    )
    known = {
        code for method in (*used, "conversations.setTopic") for code in methods[method]["errors"]
    }
    assert set(ERROR_TEXT_BY_CODE) <= known
    assert all(any(code.startswith(stem) for code in known) for stem in ERROR_TEXT_BY_CODE_PREFIX)


class TestSchedule:
    def at(self, slack: Sandbox, **ahead: float) -> str:
        return (slack.clock.now() + timedelta(**ahead)).isoformat()

    def test_is_posted_then(self, slack: Sandbox, chat: Tools) -> None:
        """The message comes when the time has come, as text and signed.

        Metadata would keep Slack from posting it.
        """
        values = {
            "channel": "#general",
            "text": "Stock-taking <now>",
            "at": self.at(slack, hours=2),
        }
        result = use(chat["schedule_message"], values, context(now=slack.clock.now()))
        assert result["scheduled_message_id"]
        assert posted(slack, "#general") == []
        slack.clock.advance(2 * 3600 + 1)
        [message] = slack.wait(lambda: posted(slack, "#general"))
        assert message["text"] == "Stock-taking &lt;now&gt;" + SIGNED
        [sent] = calls(slack, "chat.scheduleMessage")
        assert not {"metadata", "blocks"} & set(sent)

    @pytest.mark.parametrize(
        ("ahead", "words"), [({"seconds": -1}, "has passed"), ({"days": 121}, "at most 120 days")]
    )
    def test_only_within_slacks_bounds(
        self, slack: Sandbox, chat: Tools, ahead: dict[str, float], words: str
    ) -> None:
        """The past and the far future are refused before Slack is asked."""
        values = {"channel": "#general", "text": "x", "at": self.at(slack, **ahead)}
        with pytest.raises(ToolError, match=words):
            use(chat["schedule_message"], values, context(now=slack.clock.now()))
        assert calls(slack, "chat.scheduleMessage") == []

    def test_the_moment_is_shown(self, chat: Tools) -> None:
        """Effect and preview name the moment; a time without a zone is no moment."""
        tool = chat["schedule_message"]
        values = {"channel": "#general", "text": "x", "at": "2026-11-23T09:30:00+02:00"}
        args = tool.arguments.model_validate(values)
        assert (
            tool.effect_sentence(args) == "Post a message in #general on 23 Nov 2026, 09:30 +02:00"
        )
        assert preview(tool, **values).endswith("\nOn Mon 23 Nov 2026, 07:30 UTC")
        with pytest.raises(ValidationError):
            tool.arguments.model_validate({**values, "at": "2026-11-23T09:30:00"})
