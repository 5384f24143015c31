"""The Slack tools that list, create, invite and set topics, over the wire."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from bot.tools import ToolError
from bot.tools.runner import ToolFailure, ToolSuccess
from slack_sandbox.server import Sandbox
from tests.tools import Tools, context, preview, use
from tests.tools.harness import calls, outcome


class TestReads:
    def test_private_channels_are_for_their_members(self, chat: Tools) -> None:
        """Ben is not in #finance-approvals and does not learn of it; Cleo is, and does."""
        of_ben = use(chat["list_channels"], {})
        assert [each["channel"] for each in of_ben["channels"]] == [
            "#general",
            "#partners",
            "#random",
            "#support",
        ]
        of_cleo = use(chat["list_channels"], {"query": "#fin"}, context(requester="UCLEO0001"))
        assert [(each["channel"], each["private"]) for each in of_cleo["channels"]] == [
            ("#finance-approvals", True)
        ]

    def test_channels_say_who_reads_along(self, chat: Tools) -> None:
        """A channel shared with another company is marked."""
        found = use(chat["list_channels"], {"query": "partner"})["channels"]
        assert [each["shared_with_another_company"] for each in found] == [True]

    def test_people_without_bots_and_former_colleagues(self, chat: Tools) -> None:
        """Only active people are listed, guests as guests."""
        found = use(chat["list_people"], {})["people"]
        assert [each["handle"] for each in found] == ["@ana", "@ben", "@cleo", "@dan", "@gus"]
        assert [each["handle"] for each in found if each.get("guest")] == ["@gus"]
        assert use(chat["list_people"], {"query": "WEB"})["people"][0]["id"] == "UDAN00001"

    def test_all_pages_are_read(self, slack: Sandbox, chat: Tools) -> None:
        """A workspace with more channels than one page holds is listed in full.

        Each channel is found.
        """
        names = [f"project-{number:03}" for number in range(230)]
        for name in names:
            use(chat["create_channel"], {"name": name})
        assert use(chat["list_channels"], {"query": "project-"})["matching"] == 230
        assert preview(chat["set_topic"], channel="#project-229", topic="x").startswith(
            "→ #project-229 ("
        )

    def test_a_failed_read_is_told(self, slack: Sandbox, chat: Tools) -> None:
        """The model hears that Slack could not be asked; nothing rises."""
        slack.faults.status("conversations.list", 503)
        with pytest.raises(ToolError, match="nothing was done"):
            use(chat["list_channels"], {})
        slack.faults.drop("users.list")
        with pytest.raises(ToolError, match="nothing was done"):
            use(chat["list_people"], {})


class TestChannels:
    def test_create_and_invite(self, slack: Sandbox, chat: Tools) -> None:
        """A new private channel has the person who asked in it.

        They can then have others invited.
        """
        values = {"name": "returns-2026", "private": True}
        assert preview(chat["create_channel"], **values).startswith(
            "A private channel, with the bot and"
        )
        made = use(chat["create_channel"], values)
        assert made == {"channel": "#returns-2026", "channel_id": made["channel_id"]}
        wanted = {
            "channel": "#returns-2026",
            "people": ["@ana", "Dan Weber", "UCLEO0001", "<@UANA00001>"],
        }
        assert use(chat["invite"], wanted)["invited"] == ["ana", "dan", "cleo"]
        inside = slack.world.channels[made["channel_id"]].members
        assert inside == ["UBOT00001", "UBEN00001", "UANA00001", "UDAN00001", "UCLEO0001"]

    def test_a_channel_that_was_made_is_no_failure(self, slack: Sandbox, chat: Tools) -> None:
        """The channel exists although the invitation was lost: the result says both."""
        slack.faults.drop("conversations.invite")
        out = outcome(chat["create_channel"], {"name": "returns"})
        assert isinstance(out, ToolSuccess)
        assert "could not be invited" in out.summary

    def test_who_is_there_is_left_out(self, slack: Sandbox, chat: Tools) -> None:
        """Slack would refuse all of them for one who is in the channel already."""
        values = {"channel": "#general", "people": ["@ana", "@gus"]}
        assert "@ana (UANA00001) · is in it already\n" in preview(chat["invite"], **values)
        result = use(chat["invite"], values)
        assert (result["invited"], result["already_there"]) == (["gus"], ["ana"])
        only = use(chat["invite"], {"channel": "#general", "people": ["@ben"]})
        assert only == {"channel": "#general", "already_there": ["ben"]}
        assert len(calls(slack, "conversations.invite")) == 1

    @pytest.mark.parametrize(
        ("person", "words"),
        [
            ("@nobody", "There is nobody called @nobody"),
            ("UNOBODY01", "There is nobody with the id UNOBODY01"),
            ("UZOE00001", "Zoe Lind is deactivated"),
            ("UBOT00001", "is a bot"),
        ],
    )
    def test_nobody_is_invited_by_guess(
        self, slack: Sandbox, chat: Tools, person: str, words: str
    ) -> None:
        """One unknown name refuses the whole invitation."""
        values = {"channel": "#random", "people": ["@gus", person]}
        with pytest.raises(ToolError, match=words):
            use(chat["invite"], values)
        assert calls(slack, "conversations.invite") == []

    def test_two_of_one_name(self, slack: Sandbox, chat: Tools) -> None:
        """Names are not unique: the model is asked for the id, and the id works."""
        slack.people["ben"].real_name = "Dan Weber"
        with pytest.raises(
            ToolError, match=r"Dan Weber may be .*UBEN00001.* or .*UDAN00001.*: say which by id"
        ):
            use(chat["invite"], {"channel": "#support", "people": ["Dan Weber"]})
        assert "UDAN00001" in preview(chat["invite"], channel="#support", people=["UDAN00001"])

    def test_a_taken_name_is_told(self, chat: Tools) -> None:
        """The model hears that the channel exists."""
        assert outcome(chat["create_channel"], {"name": "general"}) == ToolFailure(
            "There is a channel #general already; it may be private or archived."
        )

    @pytest.mark.parametrize(
        "name", ["", "Has-Capitals", "two words", "#hash", "x" * 81, "punctuation!", "line\n"]
    )
    def test_names_slack_would_not_take(self, chat: Tools, name: str) -> None:
        """Slack's rules for names are in the type."""
        with pytest.raises(ValidationError):
            chat["create_channel"].arguments.model_validate({"name": name})

    def test_a_topic_is_set_escaped(self, slack: Sandbox, chat: Tools) -> None:
        """The topic is set with its special characters escaped.

        The card shows the one before.
        """
        values = {"channel": "#general", "topic": "Q&A <!here>"}
        assert preview(chat["set_topic"], **values).endswith("\nTopic now: (none)")
        assert outcome(chat["set_topic"], values) == ToolSuccess(
            '{"channel":"#general","topic":"Q&A <!here>"}',
            "The topic of #general is now “Q&A <!here>”",
        )
        [sent] = calls(slack, "conversations.setTopic")
        assert sent["topic"] == "Q&amp;A &lt;!here&gt;"
        assert preview(chat["set_topic"], **values).endswith("\nTopic now: Q&A <!here>")

    def test_topic_where_the_bot_is_not(self, chat: Tools) -> None:
        """A channel the bot is not in has to invite it first."""
        refused = outcome(chat["set_topic"], {"channel": "#random", "topic": "x"})
        assert refused == ToolFailure(
            "The bot is not in #random; somebody there has to invite it first."
        )

    def test_a_broken_tool_is_no_lost_answer(self, slack: Sandbox, chat: Tools) -> None:
        """A refusal of the invitation is certain, whichever code Slack gives."""
        slack.faults.fail("conversations.invite", "ura_max_channels")
        out = outcome(chat["invite"], {"channel": "#general", "people": ["@gus"]})
        assert out == ToolFailure("A single-channel guest is in another channel already.")
