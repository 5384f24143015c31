"""The Slack tools that list, create, invite and set topics, over the wire."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from bot.tools import ToolError
from bot.tools.runner import ToolFailure, ToolSuccess
from slack_sandbox.server import Sandbox
from tests.tools import Tools, context, preview, use_tool
from tests.tools.harness import list_calls, run_to_outcome


class TestReads:
    def test_private_channels_are_listed_for_their_members_only(self, chat: Tools) -> None:
        """Cleo is in #finance-approvals, Ben is not."""
        of_ben = use_tool(chat["list_channels"], {})
        assert [each["channel"] for each in of_ben["channels"]] == [
            "#general",
            "#partners",
            "#random",
            "#support",
        ]
        of_cleo = use_tool(chat["list_channels"], {"query": "#fin"}, context(requester="UCLEO0001"))
        assert [(each["channel"], each["private"]) for each in of_cleo["channels"]] == [
            ("#finance-approvals", True)
        ]

    def test_a_channel_shared_with_another_company_is_marked(self, chat: Tools) -> None:
        """So the model knows who reads along."""
        found = use_tool(chat["list_channels"], {"query": "partner"})["channels"]
        assert [each["shared_with_another_company"] for each in found] == [True]

    def test_people_are_listed_without_bots_and_former_colleagues(self, chat: Tools) -> None:
        """Guests are marked as such."""
        found = use_tool(chat["list_people"], {})["people"]
        assert [each["handle"] for each in found] == ["@ana", "@ben", "@cleo", "@dan", "@gus"]
        assert [each["handle"] for each in found if each.get("guest")] == ["@gus"]
        assert use_tool(chat["list_people"], {"query": "WEB"})["people"][0]["id"] == "UDAN00001"

    def test_channels_beyond_the_first_page_are_found(self, slack: Sandbox, chat: Tools) -> None:
        """They are listed, and can be used by name."""
        names = [f"project-{number:03}" for number in range(230)]
        for name in names:
            use_tool(chat["create_channel"], {"name": name})
        assert use_tool(chat["list_channels"], {"query": "project-"})["matching"] == 230
        assert preview(chat["set_topic"], channel="#project-229", topic="x").startswith(
            "→ #project-229 ("
        )

    def test_a_failed_read_is_reported_to_the_model(self, slack: Sandbox, chat: Tools) -> None:
        """No other exception is raised."""
        slack.faults.status("conversations.list", 503)
        with pytest.raises(ToolError, match="nothing was done"):
            use_tool(chat["list_channels"], {})
        slack.faults.drop("users.list")
        with pytest.raises(ToolError, match="nothing was done"):
            use_tool(chat["list_people"], {})


class TestChannels:
    def test_the_creator_of_a_private_channel_can_have_others_invited(
        self, slack: Sandbox, chat: Tools
    ) -> None:
        """The person who asked for the channel is a member from the start."""
        values = {"name": "returns-2026", "private": True}
        assert preview(chat["create_channel"], **values).startswith(
            "A private channel, with the bot and"
        )
        made = use_tool(chat["create_channel"], values)
        assert made == {"channel": "#returns-2026", "channel_id": made["channel_id"]}
        wanted = {
            "channel": "#returns-2026",
            "people": ["@ana", "Dan Weber", "UCLEO0001", "<@UANA00001>"],
        }
        assert use_tool(chat["invite"], wanted)["invited"] == ["ana", "dan", "cleo"]
        inside = slack.world.channels[made["channel_id"]].members
        assert inside == ["UBOT00001", "UBEN00001", "UANA00001", "UDAN00001", "UCLEO0001"]

    def test_creating_a_channel_succeeds_though_the_invitation_is_lost(
        self, slack: Sandbox, chat: Tools
    ) -> None:
        """The summary says that the channel exists and nobody could be invited."""
        slack.faults.drop("conversations.invite")
        out = run_to_outcome(chat["create_channel"], {"name": "returns"})
        assert isinstance(out, ToolSuccess)
        assert "could not be invited" in out.summary

    def test_people_already_in_the_channel_are_not_invited(
        self, slack: Sandbox, chat: Tools
    ) -> None:
        """Slack would refuse the whole invitation because of one of them."""
        values = {"channel": "#general", "people": ["@ana", "@gus"]}
        assert "@ana (UANA00001) · is in it already\n" in preview(chat["invite"], **values)
        result = use_tool(chat["invite"], values)
        assert (result["invited"], result["already_there"]) == (["gus"], ["ana"])
        only = use_tool(chat["invite"], {"channel": "#general", "people": ["@ben"]})
        assert only == {"channel": "#general", "already_there": ["ben"]}
        assert len(list_calls(slack, "conversations.invite")) == 1

    @pytest.mark.parametrize(
        ("person", "words"),
        [
            ("@nobody", "There is nobody called @nobody"),
            ("UNOBODY01", "There is nobody with the id UNOBODY01"),
            ("UZOE00001", "Zoe Lind is deactivated"),
            ("UBOT00001", "is a bot"),
        ],
    )
    def test_one_unknown_person_refuses_the_whole_invitation(
        self, slack: Sandbox, chat: Tools, person: str, words: str
    ) -> None:
        """The person may also be deactivated or a bot."""
        values = {"channel": "#random", "people": ["@gus", person]}
        with pytest.raises(ToolError, match=words):
            use_tool(chat["invite"], values)
        assert list_calls(slack, "conversations.invite") == []

    def test_an_ambiguous_name_is_asked_about_by_id(self, slack: Sandbox, chat: Tools) -> None:
        """Names are not unique; the id works."""
        slack.people["ben"].real_name = "Dan Weber"
        with pytest.raises(
            ToolError, match=r"Dan Weber may be .*UBEN00001.* or .*UDAN00001.*: say which by id"
        ):
            use_tool(chat["invite"], {"channel": "#support", "people": ["Dan Weber"]})
        assert "UDAN00001" in preview(chat["invite"], channel="#support", people=["UDAN00001"])

    def test_a_channel_name_that_is_taken_is_a_failure(self, chat: Tools) -> None:
        """The model is told that the channel may be private or archived."""
        assert run_to_outcome(chat["create_channel"], {"name": "general"}) == ToolFailure(
            "There is a channel #general already; it may be private or archived."
        )

    @pytest.mark.parametrize(
        "name", ["", "Has-Capitals", "two words", "#hash", "x" * 81, "punctuation!", "line\n"]
    )
    def test_the_type_refuses_channel_names_that_slack_would_refuse(
        self, chat: Tools, name: str
    ) -> None:
        """So Slack is not asked."""
        with pytest.raises(ValidationError):
            chat["create_channel"].arguments.model_validate({"name": name})

    def test_a_topic_is_set_with_its_special_characters_escaped(
        self, slack: Sandbox, chat: Tools
    ) -> None:
        """The preview shows the topic before."""
        values = {"channel": "#general", "topic": "Q&A <!here>"}
        assert preview(chat["set_topic"], **values).endswith("\nTopic now: (none)")
        assert run_to_outcome(chat["set_topic"], values) == ToolSuccess(
            '{"channel":"#general","topic":"Q&A <!here>"}',
            "The topic of #general is now “Q&A <!here>”",
        )
        [sent] = list_calls(slack, "conversations.setTopic")
        assert sent["topic"] == "Q&amp;A &lt;!here&gt;"
        assert preview(chat["set_topic"], **values).endswith("\nTopic now: Q&A <!here>")

    def test_a_topic_cannot_be_set_where_the_bot_is_no_member(self, chat: Tools) -> None:
        """The model is told that somebody there has to invite the bot first."""
        refused = run_to_outcome(chat["set_topic"], {"channel": "#random", "topic": "x"})
        assert refused == ToolFailure(
            "The bot is not in #random; somebody there has to invite it first."
        )

    def test_a_refused_invitation_is_a_certain_failure(self, slack: Sandbox, chat: Tools) -> None:
        """The code is one that only this method has."""
        slack.faults.fail("conversations.invite", "ura_max_channels")
        out = run_to_outcome(chat["invite"], {"channel": "#general", "people": ["@gus"]})
        assert out == ToolFailure("A single-channel guest is in another channel already.")
