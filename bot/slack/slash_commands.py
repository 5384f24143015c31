"""The slash command `/approvals`: questions about approvals, answered to the person who asks.

A message to the bot that consists only of such words gets the same answer. The buttons of an answer
replace it by another one.

Questions only read, except `revoke` and `mode`, each of which is one transaction of its own; so
nothing is stored in the inbox: a lost answer can be asked for again, and no run depends on it. A
command is acknowledged first; people are looked up after that, on separate threads, so that a slow
Slack delays no other acknowledgement. The answer goes to the response_url, which also reaches
channels that the bot is not in.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from slack_bolt import App

from bot.cards import request_list, sentences
from bot.cards.action_names import Action
from bot.cards.answers import render_notice_sentence
from bot.cards.button_codec import LOOK_ACTIONS, Click, RunTarget, decode_clicked_element
from bot.cards.slack_text import sanitise_for_mrkdwn, strip_mrkdwn
from bot.cards.views import get_sender_workspace_id
from bot.explain.typed_call import TypedCallError
from bot.policy.authority import LookupFailedError
from bot.slack import command_answers
from bot.slack.client import SlackClient
from bot.slack.directory import replace_mentions_in_plain_text

log = logging.getLogger("countersign.commands")
# what keyboards and Slack's editor write instead of straight quotes and of spaces
_PLAIN_CHARACTERS = str.maketrans("“”„‘’\u00a0\u202f", '"""\'\'  ')
HELP_SUBCOMMAND = "help"  # in a message this word is for the agent
SUBCOMMAND_BY_ACTION: Mapping[Action, str] = {  # the question that each button asks
    Action.LOOK_WAITING: "list",
    Action.LOOK_REQUESTS: "requests",
    Action.LOOK_HISTORY: "history",
    Action.LOOK_GRANTS: "grants",
    Action.LOOK_HELP: HELP_SUBCOMMAND,
    Action.LOOK_SHOW: "show",
}
LOOKUP_FAILED_TEXT = "I could not ask Slack about this just now. Please try again in a minute."
PICTURE_FAILED_TEXT = "I could not send you the picture. Please ask again."
MAX_ANSWER_CHARS = 11_000


class SlashCommandHandler:
    """The handler of the slash command, its answers' buttons, and the same words in messages."""

    def __init__(
        self, answerer: command_answers.SlashCommandServices, client: SlackClient, team: str
    ) -> None:
        """`team` is the only workspace whose people are answered when they click.

        `client` posts the answers to questions asked in a message. Nothing is answered before
        `register_listeners`.
        """
        self._services = answerer
        self._client = client
        self._team = team
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="command")

    def register_listeners(self, app: App) -> None:
        """Register the command and the buttons of its answers on the Bolt app."""
        app.command(command_answers.SLASH_COMMAND)(self._handle_command)
        for look in sorted(LOOK_ACTIONS):
            app.action(look)(self._handle_button)
        self._services.request_opener.register_shortcuts(app)

    def close(self) -> None:
        """Answer nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def answer_if_text_is_subcommand(
        self, person: str, channel: str, thread_ts: str, text: str
    ) -> bool:
        """Answer a message that is a slash subcommand; return whether it is one.

        If so, it is answered on another thread, to this person alone.
        """
        try:
            name, *words = _split_words(text) or [""]
        except TypedCallError:
            return False
        question = command_answers.SUBCOMMANDS.get(name.lower())
        if question is None or name.lower() == HELP_SUBCOMMAND:
            return False
        if not question.is_asked_by_words(self._services, words):
            return False
        invocation = command_answers.SlashCommandInvocation(person, channel, words)
        self._pool.submit(self._answer_message, question, invocation, thread_ts)
        return True

    def _handle_command(
        self, ack: Callable[[], None], body: dict[str, Any], respond: Callable[..., Any]
    ) -> None:
        ack()
        self._pool.submit(self._answer_command, body, respond)

    def _answer_command(self, body: dict[str, Any], respond: Callable[..., Any]) -> None:
        trigger = str(body.get("trigger_id") or "")
        invocation = command_answers.SlashCommandInvocation(
            str(body["user_id"]), str(body["channel_id"]), (), trigger
        )
        text = str(body.get("text") or "")
        said = self._build_answer(invocation, lambda: self._answer_typed_words(invocation, text))
        self._send_response(respond, said, response_type="ephemeral")
        self._send_file(invocation.person, said)

    def _handle_button(
        self, ack: Callable[[], None], body: dict[str, Any], respond: Callable[..., Any]
    ) -> None:
        ack()
        click = decode_clicked_element(body["actions"][0])
        if isinstance(click, Click) and get_sender_workspace_id(body) == self._team:
            self._pool.submit(self._answer_button, click, body, respond)

    def _answer_button(
        self, click: Click, body: dict[str, Any], respond: Callable[..., Any]
    ) -> None:
        """Replace an answer by the one that its button asks for."""
        channel = (body.get("channel") or {}).get("id") or ""
        about = [click.target.run] if isinstance(click.target, RunTarget) else []
        invocation = command_answers.SlashCommandInvocation(body["user"]["id"], channel, about)
        answer = self._build_answer(
            invocation,
            lambda: command_answers.SUBCOMMANDS[SUBCOMMAND_BY_ACTION[click.action]].answer(
                self._services, invocation
            ),
        )
        self._send_response(respond, request_list.add_overview_menu(answer), replace_original=True)

    def _answer_message(
        self,
        question: command_answers.SlashSubcommand,
        invocation: command_answers.SlashCommandInvocation,
        thread_ts: str,
    ) -> None:
        """Answer a question asked in a message: in the same place, visible to its author alone."""
        answer = self._build_answer(invocation, lambda: question.answer(self._services, invocation))
        client, channel = self._client, invocation.channel
        try:
            if channel.startswith("D"):
                client.chat_postMessage(
                    channel=channel, text=answer.text, blocks=answer.blocks, thread_ts=thread_ts
                )
            else:  # Slack shows it in a thread only if the thread has replies
                has_replies = client.get_last_post_sequence_number(channel, thread_ts)
                client.chat_postEphemeral(
                    channel=channel,
                    user=invocation.person,
                    text=answer.text,
                    blocks=answer.blocks,
                    thread_ts=thread_ts if has_replies else None,
                )
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the person can ask again
            log.warning("an answer could not be given: %s", type(error).__name__)
        self._send_file(invocation.person, answer)

    def _send_response(
        self, respond: Callable[..., Any], said: request_list.SlashCommandAnswer, **how: Any
    ) -> None:
        if not said.text:  # a dialog has opened instead
            return
        try:
            answered = respond(text=said.text, blocks=said.blocks, **how)
            if answered.status_code != HTTPStatus.OK:  # slack_sdk raises nothing for it
                raise ConnectionError(f"HTTP {answered.status_code}, {answered.body[:80]}")
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the person can ask again
            log.warning(
                "an answer to %s could not be given: %s", command_answers.SLASH_COMMAND, error
            )

    def _send_file(self, person: str, answer: request_list.SlashCommandAnswer) -> None:
        """Create the answer's file, if any, and upload it to the person's direct messages."""
        if answer.build_file is None:
            return
        try:
            file = answer.build_file()
            opened = self._client.conversations_open(users=person)
            self._client.files_upload_v2(
                channel=opened["channel"]["id"],
                filename=file.name,
                title=file.title,
                alt_txt=file.alt,
                file=file.content,
            )
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the person can ask again
            log.warning("the file of an answer could not be sent: %s", type(error).__name__)
            self._notify_of_missing_file(person)

    def _notify_of_missing_file(self, person: str) -> None:
        try:
            self._client.chat_postMessage(channel=person, text=PICTURE_FAILED_TEXT)
        except Exception as error:  # noqa: BLE001 - the rest of the answer was given
            log.warning("and saying so failed too: %s", type(error).__name__)

    def _answer_typed_words(
        self, invocation: command_answers.SlashCommandInvocation, text: str
    ) -> str | request_list.SlashCommandAnswer:
        """Return the answer to the words after the command; the menu if there are none."""
        if not (typed := _split_words(text)):
            return request_list.render_overview_menu()
        name, *words = typed
        question = command_answers.SUBCOMMANDS.get(name.lower())
        if question is None:
            raise TypedCallError(f"I do not know {command_answers.SLASH_COMMAND} {name!r}.")
        return question.answer(self._services, replace(invocation, words=words))

    def _build_answer(
        self,
        invocation: command_answers.SlashCommandInvocation,
        answer: Callable[[], str | request_list.SlashCommandAnswer],
    ) -> request_list.SlashCommandAnswer:
        """Return the answer with its blocks, or the reason why there is none.

        Only full members of the workspace get an answer.
        """
        try:
            if not self._services.explanation_sources.authority.is_active_colleague(
                invocation.person
            ):
                return _render_answer("I answer full members of this workspace only.")
            result = answer()
            if isinstance(result, request_list.SlashCommandAnswer):
                people = self._services.explanation_sources.sources.directory
                result = replace(
                    result, blocks=replace_mentions_in_plain_text(people, result.blocks)
                )
            return _render_answer(result)
        except TypedCallError as error:
            why = sanitise_for_mrkdwn(str(error), 1200)
            return _render_answer(f"{why} See {command_answers.SLASH_COMMAND} help.")
        except LookupFailedError:
            return _render_answer(LOOKUP_FAILED_TEXT)
        except Exception:
            log.exception("a command could not be answered")
            return _render_answer(sentences.event_handling_failed_reply(False))


def _render_answer(
    answer: str | request_list.SlashCommandAnswer,
) -> request_list.SlashCommandAnswer:
    if not answer:
        return request_list.SlashCommandAnswer("", [])
    if isinstance(answer, request_list.SlashCommandAnswer):
        return request_list.add_overview_menu(answer)
    text = _truncate_lines(answer)
    return request_list.SlashCommandAnswer(strip_mrkdwn(text), render_notice_sentence(text))


def _truncate_lines(text: str) -> str:
    """Return as many lines as fit into one message, with the number of lines left out."""
    lines, kept = text.split("\n"), 0
    while (
        kept < len(lines) and sum(len(each) + 1 for each in lines[: kept + 1]) <= MAX_ANSWER_CHARS
    ):
        kept += 1
    if kept == len(lines):
        return text
    more = f"… and {len(lines) - kept} more lines: use the command line"
    return "\n".join([*lines[:kept], more])


def _split_words(text: str) -> list[str]:
    """Return a text's words, split like a shell does; raise TypedCallError for an open quote."""
    try:
        return shlex.split(text.translate(_PLAIN_CHARACTERS))
    except ValueError:
        raise TypedCallError("A quotation mark is not closed.") from None
