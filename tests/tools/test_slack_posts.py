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
from tests.tools import NAMING, Tools, context, preview, use_tool
from tests.tools.harness import list_calls, list_messages, run_to_outcome

SIGNATURE = "\n_Sent for <@UBEN00001> by Countersign_"


class TestPost:
    def test_a_posted_message_is_signed_and_carries_the_calls_id(
        self, slack: Sandbox, chat: Tools
    ) -> None:
        """A repeat of the post can be found by the call's id in its metadata."""
        result = use_tool(chat["post_message"], {"channel": "#general", "text": "Back in *stock*."})
        [message] = list_messages(slack, "#general")
        assert message["text"] == "Back in *stock*." + SIGNATURE
        assert result == {"channel": "#general", "channel_id": "C0GENERAL", "ts": message["ts"]}
        [sent] = list_calls(slack, "chat.postMessage")
        assert sent["metadata"] == {
            "event_type": EVENT_TYPE,
            "event_payload": {"call_id": "call-1"},
        }

    def test_a_post_has_no_blocks_mentions_or_links(self, slack: Sandbox, chat: Tools) -> None:
        """It cannot pass for a card or notify anybody: markup is escaped, nothing unfurls."""
        text = (
            "<!channel> <@UANA00001> <!subteam^S0LEADS> <https://x.example|Approve> & <#C0FINANCE>"
        )
        use_tool(chat["post_message"], {"channel": "#general", "text": text})
        [sent] = list_calls(slack, "chat.postMessage")
        assert "blocks" not in sent
        assert "attachments" not in sent
        assert sent["text"].removesuffix(SIGNATURE) == (
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
    def test_a_channel_may_be_written_in_any_form(self, chat: Tools, wanted: str) -> None:
        """The preview says which channel is meant."""
        shown = preview(chat["post_message"], channel=wanted, text="x")
        assert shown.startswith("→ #general (C0GENERAL)")

    @pytest.mark.parametrize("wanted", ["@ana", "UANA00001", "<@UANA00001>", "DANA00001"])
    def test_tools_do_not_post_into_direct_messages(
        self, slack: Sandbox, chat: Tools, wanted: str
    ) -> None:
        """The preview refuses it, too."""
        slack.person("ana").open_dm()
        with pytest.raises(ToolError, match="direct messages are not possible"):
            use_tool(chat["post_message"], {"channel": wanted, "text": "x"})
        with pytest.raises(ToolError, match="direct messages are not possible"):
            preview(chat["post_message"], channel=wanted, text="x")

    def test_a_post_to_a_shared_channel_needs_external_ok(
        self, slack: Sandbox, chat: Tools
    ) -> None:
        """The preview says that another company will read it."""
        values = {"channel": "#partners", "text": "Prices rise."}
        with pytest.raises(ToolError, match="shared with another company"):
            use_tool(chat["post_message"], values)
        with pytest.raises(ToolError, match="shared with another company"):
            preview(chat["post_message"], **values)
        assert "another company will read it" in preview(
            chat["post_message"], **values, external_ok=True
        )
        use_tool(chat["post_message"], {**values, "external_ok": True})
        assert len(list_messages(slack, "#partners")) == 1

    def test_only_members_of_a_private_channel_can_have_the_bot_post_there(
        self, slack: Sandbox, chat: Tools
    ) -> None:
        """The bot is a member; Ben is not, Cleo is."""
        values = {"channel": "#finance-approvals", "text": "x"}
        with pytest.raises(ToolError, match="no channel #finance-approvals that the bot and the"):
            use_tool(chat["post_message"], values)
        use_tool(chat["post_message"], values, context(requester="UCLEO0001"))
        assert len(list_messages(slack, "#finance-approvals")) == 1

    @pytest.mark.parametrize("channel", ["#nowhere", "C0NOWHERE1"])
    def test_an_unknown_channel_is_refused_by_name(self, chat: Tools, channel: str) -> None:
        """The model is told the name or id that it gave."""
        with pytest.raises(ToolError, match=f"There is no channel {channel} that the bot and"):
            use_tool(chat["post_message"], {"channel": channel, "text": "x"})

    def test_an_archived_channel_is_refused_as_archived(self, slack: Sandbox, chat: Tools) -> None:
        """The channel is given by id here."""
        slack.archive("#general")
        with pytest.raises(ToolError, match=r"^#general is archived\.$"):
            use_tool(chat["post_message"], {"channel": "C0GENERAL", "text": "x"})
        with pytest.raises(ToolError, match=r"^#general is archived\.$"):
            preview(chat["post_message"], channel="C0GENERAL", text="x")

    @pytest.mark.parametrize("text", ["", "  \n", "x" * 3001])
    def test_the_type_refuses_blank_and_too_long_texts(self, chat: Tools, text: str) -> None:
        """So nobody is asked about them."""
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
    def test_a_refusal_by_slack_is_explained_in_a_sentence(
        self, slack: Sandbox, chat: Tools, code: str, words: str
    ) -> None:
        """Nothing was done, and the model is told why."""
        slack.faults.fail("chat.postMessage", code)
        assert run_to_outcome(chat["post_message"], self.values) == ToolFailure(words)

    def test_a_rate_limit_is_a_failure_with_the_time_to_wait(
        self, slack: Sandbox, chat: Tools
    ) -> None:
        """Slack answers with status 429, with and without Retry-After."""
        slack.faults.rate_limit("chat.postMessage", 7)
        assert run_to_outcome(chat["post_message"], self.values) == ToolFailure(
            "Slack asks to slow down; try again in 7 seconds."
        )
        slack.faults.status("chat.postMessage", 429)
        assert run_to_outcome(chat["post_message"], self.values) == ToolFailure(
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
    def test_after_slacks_own_errors_the_outcome_is_unknown(
        self, slack: Sandbox, chat: Tools, code: str
    ) -> None:
        """Slack may have acted before it failed."""
        slack.faults.fail("chat.postMessage", code)
        assert isinstance(run_to_outcome(chat["post_message"], self.values), LostToolAnswer)

    @pytest.mark.parametrize("status", [500, 503])
    def test_after_a_5xx_status_the_outcome_is_unknown(
        self, slack: Sandbox, chat: Tools, status: int
    ) -> None:
        """The answer has no body."""
        slack.faults.status("chat.postMessage", status)
        assert isinstance(run_to_outcome(chat["post_message"], self.values), LostToolAnswer)

    def test_after_a_cut_connection_the_outcome_is_unknown(
        self, slack: Sandbox, chat: Tools
    ) -> None:
        """The post may have happened: it is neither reported as failed nor tried again."""
        slack.faults.drop("chat.postMessage", when="after")
        assert isinstance(run_to_outcome(chat["post_message"], self.values), LostToolAnswer)
        assert len(list_messages(slack, "#general")) == 1
        slack.faults.drop("chat.postMessage", when="before")
        with pytest.raises((OSError, http.client.HTTPException)):
            use_tool(chat["post_message"], self.values)
        assert len(list_calls(slack, "chat.postMessage")) == 2

    def test_a_failed_channel_look_up_is_a_certain_failure(
        self, slack: Sandbox, chat: Tools
    ) -> None:
        """The look-up comes before the post, so nothing was posted."""
        NAMING.set(None)
        slack.faults.drop("conversations.info")
        refused = run_to_outcome(chat["post_message"], self.values)
        assert isinstance(refused, ToolFailure)
        assert refused.certain
        assert list_messages(slack, "#general") == []

    def test_a_missing_slack_scope_is_named(self) -> None:
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
            assert run_to_outcome(found["post_message"], self.values) == ToolFailure(
                "The bot lacks the Slack permission chat:write."
            )


def test_every_explained_error_code_is_one_that_slack_documents() -> None:
    """A misspelt code would never be met."""
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
    def build_time(self, slack: Sandbox, **ahead: float) -> str:
        return (slack.clock.now() + timedelta(**ahead)).isoformat()

    def test_a_scheduled_message_is_posted_at_its_time(self, slack: Sandbox, chat: Tools) -> None:
        """It is text with a signature, and has no metadata.

        Metadata would keep Slack from posting it.
        """
        values = {
            "channel": "#general",
            "text": "Stock-taking <now>",
            "at": self.build_time(slack, hours=2),
        }
        result = use_tool(chat["schedule_message"], values, context(now=slack.clock.now()))
        assert result["scheduled_message_id"]
        assert list_messages(slack, "#general") == []
        slack.clock.advance(2 * 3600 + 1)
        [message] = slack.wait(lambda: list_messages(slack, "#general"))
        assert message["text"] == "Stock-taking &lt;now&gt;" + SIGNATURE
        [sent] = list_calls(slack, "chat.scheduleMessage")
        assert not {"metadata", "blocks"} & set(sent)

    @pytest.mark.parametrize(
        ("ahead", "words"), [({"seconds": -1}, "has passed"), ({"days": 121}, "at most 120 days")]
    )
    def test_a_message_is_scheduled_only_within_slacks_limits(
        self, slack: Sandbox, chat: Tools, ahead: dict[str, float], words: str
    ) -> None:
        """A time in the past or beyond 120 days is refused before Slack is asked."""
        values = {"channel": "#general", "text": "x", "at": self.build_time(slack, **ahead)}
        with pytest.raises(ToolError, match=words):
            use_tool(chat["schedule_message"], values, context(now=slack.clock.now()))
        assert list_calls(slack, "chat.scheduleMessage") == []

    def test_effect_and_preview_show_when_a_message_is_posted(self, chat: Tools) -> None:
        """A time without a time zone is refused."""
        tool = chat["schedule_message"]
        values = {"channel": "#general", "text": "x", "at": "2026-11-23T09:30:00+02:00"}
        args = tool.arguments.model_validate(values)
        assert (
            tool.effect_sentence(args) == "Post a message in #general on 23 Nov 2026, 09:30 +02:00"
        )
        assert preview(tool, **values).endswith("\nOn Mon 23 Nov 2026, 07:30 UTC")
        with pytest.raises(ValidationError):
            tool.arguments.model_validate({**values, "at": "2026-11-23T09:30:00"})
