"""The pages on which people sign with a passkey, or add one; opening a page changes nothing.

A page is behind a private link. What the authenticator answers is stored as a delivery, which the
loop decides like a click; the page then asks what became of it.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from html import escape
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from bot.approvals import signatures
from bot.approvals.call_views import build_call_view_for_approvers
from bot.approvals.card_views import describe_people_in_review
from bot.cards import block_kit, review_dialog, slack_text
from bot.config.connection_settings import PageAddress
from bot.http import api_bodies, api_gate
from bot.policy.authority import Directory
from bot.slack.directory import find_display_name, format_field_error
from storage import calls, runs
from storage.passkeys import SigningLink
from storage.record import Delivery, Transaction
from storage.states import CallVerb, SigningLinkKind, UnknownCallResolution

if TYPE_CHECKING:
    from bot.core import Core

MAX_CONCURRENT_LINK_LOOKUPS = 8  # other requests wait in line
MAX_BODY_BYTES = 16_000
BUTTON_LABEL_BY_VERB: dict[str, str] = {
    CallVerb.APPROVE: "Sign and approve",
    CallVerb.BREAK_GLASS: "Sign and run at once",
    UnknownCallResolution.AGAIN: "Sign and run it again",
}
ADD_PASSKEY_LABEL = "Add a passkey"
SIGNS_EXACTLY_TEXT = "Your passkey signs exactly what is shown here."
RUN_AGAIN_TEXT = "Outcome unknown: it was started, but never confirmed. This runs it once more."
NEW_PASSKEY_TEXT = (
    "Your device keeps the key and asks for your face, finger or PIN, now and each time you sign. "
    "Countersign gets only the public key."
)
SOFTWARE_KEY_LABEL = "{} with the demo’s software key"
NO_SOFTWARE_KEY_ERROR = "There is no software key here that may sign this, so nothing has changed."
UNKNOWN_LINK_ERROR = (
    "This link is unknown or no longer valid. Press the button in Slack again for a new one."
)
BEING_DECIDED_NOTICE = (
    "What you signed is being decided. Load this page again in a moment, or look in Slack."
)
NOT_FROM_PAGE_ERROR = "This was not sent by the page that the link opens, so nothing has changed."
UNREADABLE_CREDENTIAL_ERROR = "Your device’s answer could not be read, so nothing has changed."
RESTARTING_ERROR = "Countersign is being restarted, so nothing has changed. Try again in a minute."


class SoftwareKeys(Protocol):
    """Passkeys in software, for people whose browser has no authenticator; in the demo only."""

    def has_key(self, credential_id: str) -> bool: ...
    def answer(self, options: Mapping[str, Any]) -> dict[str, Any] | None: ...


# Slack blocks as HTML: every block that says something on a card or in a dialog. Buttons and inputs
# are left out, and unknown blocks are refused, so that nobody is shown a part of a call as if it
# were all of it.

# buttons, menus and inputs say nothing about the call
_INTERACTIVE_BLOCK_TYPES = frozenset({"actions", "input"})
_TAG_BY_BLOCK_TYPE = {
    "rich_text_section": "p",
    "rich_text_quote": "blockquote",
    "rich_text_preformatted": "pre",
}
_STYLE_TAGS = (("bold", "strong"), ("italic", "em"), ("strike", "s"), ("code", "code"))
_MAX_NAME_CHARS = 80  # the limit in Slack's profiles
# a mention, a time or a link; or bold text, which may contain these
_MARKUP_PATTERN = re.compile(
    r"(<[^<>\n]+>|(?<![\w*])\*(?=\S)(?:<[^<>\n]+>|[^*<>\n])+(?<=\S)\*(?![\w*]))"
)
_BIDI_MARK_PATTERN = re.compile("([\u2068\u2069])")  # around text with a direction of its own
_URL_PATTERN = re.compile(r"(?:https?://|mailto:)[^\s\\]+", re.IGNORECASE)

# returns the name of the person, user group or channel with this id; "" if unknown
NameFinder = Callable[[str], str]


class UnknownBlockError(ValueError):
    """Raised for a Slack block, or a part of one, that cannot be drawn as HTML."""


def render_blocks_as_html(blocks: Iterable[block_kit.Json], find_name: NameFinder) -> str:
    """Return Slack blocks as HTML, each of their texts escaped; raises UnknownBlockError."""
    shown = (each for each in blocks if each["type"] not in _INTERACTIVE_BLOCK_TYPES)
    return "\n".join(_render_block(each, find_name) for each in shown)


def _render_block(thing: block_kit.Json, find_name: NameFinder) -> str:
    draw = partial(_render_block, find_name=find_name)
    match thing:
        case {"type": "divider"}:
            return "<hr>"
        case {"type": "header", "text": text}:
            return _element("h2", draw(text))
        case {"type": "section", "text": text} if "fields" not in thing:
            return _element("p", draw(text))
        case {"type": "section", "fields": texts} if "text" not in thing:
            return f'<div class="fields">{_join("p", map(draw, texts))}</div>'
        case {"type": "context", "elements": texts}:
            return f'<div class="small">{_join("p", map(draw, texts))}</div>'
        case {"type": "rich_text", "elements": parts}:
            return "".join(map(draw, parts))
        case {"type": "rich_text_list", "elements": lines}:
            return f"<ul>{_join('li', map(draw, lines))}</ul>"
        case {"type": named, "elements": leaves} if named in _TAG_BY_BLOCK_TYPE:
            return _element(_TAG_BY_BLOCK_TYPE[named], "".join(map(draw, leaves)))
        case {"type": "plain_text", "text": text}:
            return _escape(text)
        case {"type": "mrkdwn", "text": text}:
            return _render_mrkdwn(text, find_name)
        case {"type": "text", "text": text}:
            tags = [tag for style, tag in _STYLE_TAGS if thing.get("style", {}).get(style)]
            opened, closed = (f"<{each}>" for each in tags), (f"</{each}>" for each in tags[::-1])
            return "".join([*opened, _escape(text), *closed])
        case {"type": "user", "user_id": person}:
            return _render_name("@", person, find_name)
        case {"type": "channel", "channel_id": channel}:
            return _render_name("#", channel, find_name)
        case {"type": "date", "timestamp": at, "fallback": words}:
            return _render_time(at, words)
        case {"type": "link", "url": url}:
            return _render_link(url, thing.get("text", ""))
    raise UnknownBlockError(f"{thing['type']!r} cannot be drawn")


def _element(tag: str, inner: str) -> str:
    """Return an HTML element that is written in the direction of its text."""
    first = "\n" if tag == "pre" else ""  # browsers drop a line end that begins a <pre>
    return f'<{tag} dir="auto">{first}{inner}</{tag}>'


def _join(tag: str, parts: Iterable[str]) -> str:
    return "".join(_element(tag, each) for each in parts)


def _render_mrkdwn(text: str, find_name: NameFinder) -> str:
    parts = _MARKUP_PATTERN.split(text)  # every second one is marked
    parts[::2] = (_escape(slack_text.unescape_mrkdwn(each)) for each in parts[::2])
    for place, marked in enumerate(parts[1::2]):
        inner, is_bold = marked[1:-1], marked[0] == "*"
        bold = f"<strong>{_render_mrkdwn(inner, find_name)}</strong>" if is_bold else ""
        parts[2 * place + 1] = bold or _render_marked(inner, find_name)
    return "".join(parts)


def _escape(text: str) -> str:
    """Return a text for HTML, its hidden characters written out, except our direction marks."""
    parts = _BIDI_MARK_PATTERN.split(text)
    parts[::2] = map(slack_text.show_hidden_characters, parts[::2])
    return escape("".join(parts))


def _render_marked(inner: str, find_name: NameFinder) -> str:
    """Return as HTML what stands between "<" and ">" in mrkdwn: a mention, a time or a link."""
    target, _, label = inner.partition("|")
    words = slack_text.unescape_mrkdwn(label)
    command, *rest = target.split("^")
    if command == "!date" and rest and re.fullmatch(r"[0-9]{1,11}", rest[0]):
        return _render_time(int(rest[0]), words)
    if command == "!subteam" and rest:
        return _render_name("@", rest[0], find_name)
    if target.startswith(("@", "#")):
        return _render_name(target[0], target[1:], find_name)
    if target.startswith("!"):
        return _escape(f"@{words or target[1:]}")
    return _render_link(slack_text.unescape_mrkdwn(target), words)


def _render_name(sign: str, name_id: str, find_name: NameFinder) -> str:
    name = slack_text.sanitise_as_plain_text(find_name(name_id).lstrip("@#"), _MAX_NAME_CHARS)
    return f"<bdi>{sign}{_escape(name or name_id)}</bdi>"


def _render_time(timestamp: int, in_words: str) -> str:
    at = datetime.fromtimestamp(timestamp, UTC)
    return f'<time datetime="{at:%Y-%m-%dT%H:%M:%SZ}">{_escape(in_words)}</time>'


def _render_link(url: str, label: str) -> str:
    """Return HTML for a link and its target; only http, https and mailto can be followed."""
    seen, target = _escape(label), _escape(url)
    if not _URL_PATTERN.fullmatch(url):
        return f"{seen} ({target})" if label else target
    link = f'<a href="{target}" rel="noreferrer noopener" target="_blank">{seen or target}</a>'
    return link if label in ("", url) else f"{link} ({target})"


# HTML: one template for all pages, which includes all that it needs; nothing else may be loaded.

_PAGE_TEMPLATE, _FORM_TEMPLATE, _STYLE, _SCRIPT = (
    Path(__file__).with_name("pages").joinpath(name).read_text("utf-8")
    for name in ("page.html", "form.html", "page.css", "page.js")
)


def _hash_source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


STYLE_HASH = _hash_source(_STYLE)
SECURITY_HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; script-src {_hash_source(_SCRIPT)}; "
    f"style-src {STYLE_HASH}; img-src data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "publickey-credentials-get=(self), publickey-credentials-create=(self)",
}


@dataclass(frozen=True, slots=True)
class PasskeyQuestion:
    """What a page shows a person, and what it asks of their authenticator: a signature or a key."""

    title: str
    lead: str  # plain text below the title
    blocks: list[block_kit.Json]  # what is signed; empty for a new passkey, which may get a name
    button: str  # "" if the call cannot be shown in full
    options: Mapping[str, Any]  # for navigator.credentials, with bytes as base64url
    in_software: str = ""  # "also" or "only" if a passkey in software may be used


def render_page(title: str, shown: str = "", form: str = "", script: str = _SCRIPT) -> str:
    """Return an HTML page; `title` is plain text, the rest HTML, empty where nothing is asked."""
    return _PAGE_TEMPLATE.format(
        title=escape(title), shown=shown, form=form, style=_STYLE, script=script
    )


def render_question_page(
    asked: PasskeyQuestion, until: datetime, now: datetime, find_name: NameFinder
) -> str:
    """Return the page on which a person signs or adds a passkey; its link works until `until`."""
    shown = '<label>Name it, so that you recognise it later<input maxlength="60"></label>'
    if asked.blocks:
        card = render_blocks_as_html(asked.blocks, find_name)
        shown = f'<section class="card" aria-label="What you sign">{card}</section>'
    words = f"The link is only for you, and works until {slack_text.format_local_time(until)}."
    foot = block_kit.context_block("until", [block_kit.mrkdwn(words)])
    act = "get" if asked.blocks else "create"
    kind = "software" if asked.in_software == "only" else "software second"
    label = SOFTWARE_KEY_LABEL.format("Sign" if asked.blocks else "Continue")
    software = f'<button type="button" class="{kind}" hidden>{label}</button>'
    form = _FORM_TEMPLATE.format(
        act="" if asked.in_software == "only" else act,
        software=software if asked.in_software else "",
        options=escape(json.dumps(asked.options)),
        seconds=max(0, int((until - now).total_seconds())),
        button=escape(asked.button),
        kind="danger" if asked.button == BUTTON_LABEL_BY_VERB[CallVerb.BREAK_GLASS] else "",
        until=render_blocks_as_html([foot], find_name),
    )
    lead = f'<p class="lead">{escape(asked.lead)}</p>'
    return render_page(asked.title, lead + shown, form if asked.button else "")


@dataclass
class SigningPages:
    """The signing pages of one process; no API key is needed: each link is private and expires."""

    core: Core
    links: signatures.SigningLinks
    address: PageAddress
    keep: Callable[[Delivery], None]  # stores a delivery, and wakes the loop
    names: Directory  # for names, looked up for a moment only
    is_stopping: Callable[[], bool]
    software: SoftwareKeys | None = None  # passkeys in software, which people may use, too
    turns: CapacityLimiter = field(
        default_factory=partial(CapacityLimiter, MAX_CONCURRENT_LINK_LOOKUPS)
    )

    def list_routes(self) -> list[Route]:
        """Return the routes to sign and to add a passkey: the page, its post and its outcome."""
        acts = (("", "GET", self._show), ("", "POST", self._take), ("/outcome", "GET", self._tell))
        return [
            Route(f"/{path}/{{token}}{end}", partial(self._handle, act), methods=[method])
            for path in signatures.PATH_BY_LINK_KIND.values()
            for end, method, act in acts
        ]

    async def _handle(self, act: Callable[[str, Any], Response], request: Request) -> Response:
        try:
            posted = await self._read_body(request) if request.method == "POST" else None
            token = request.path_params["token"]
            response = await to_thread.run_sync(act, token, posted, limiter=self.turns)
        except api_bodies.ProblemError as error:
            response = JSONResponse({"detail": error.problem.detail}, error.status)
        response.headers.update(SECURITY_HEADERS)
        return response

    async def _read_body(self, request: Request) -> Any:
        """Return the JSON that the page posted; ProblemError for what another may have sent."""
        if self.is_stopping():
            raise api_bodies.build_retry_later_problem(
                HTTPStatus.SERVICE_UNAVAILABLE, RESTARTING_ERROR, 5
            )
        sent = request.headers
        site, origin = sent.getlist("sec-fetch-site"), sent.getlist("origin")
        if origin != [self.address.origin] or site not in ([], ["same-origin"]):
            raise api_bodies.ProblemError(HTTPStatus.FORBIDDEN, NOT_FROM_PAGE_ERROR)
        seconds = api_gate.BODY_TIMEOUT_SECONDS
        body = await api_gate.read_request_body(request.receive, MAX_BODY_BYTES, seconds)
        api_gate.check_json_body(body, sent)
        return json.loads(body)

    def _show(self, token: str, _posted: None) -> Response:
        """Show the page of a link, or say why it cannot be used. Changes nothing."""
        core, now = self.core, self.core.clock.now()
        with core.store.read() as tx:
            link = self.links.find_link(tx, token)
        if link is None:
            return HTMLResponse(render_page(UNKNOWN_LINK_ERROR), HTTPStatus.NOT_FOUND)
        display_name = find_display_name(self.names, link.person) or link.person
        name = slack_text.sanitise_as_plain_text(display_name, _MAX_NAME_CHARS)
        with core.store.read() as tx:
            outcome = signatures.find_outcome(tx, link)
            problem = signatures.describe_link_problem(tx, link, now)
            if outcome is not None:
                problem = outcome or BEING_DECIDED_NOTICE
            question = None if problem else self._build_question(tx, link, name, now)
        if question is None:
            page = render_page(format_field_error(self.names, problem))
            return HTMLResponse(page, HTTPStatus.GONE)
        find_name = partial(find_display_name, self.names)
        return HTMLResponse(render_question_page(question, link.expires_at, now, find_name))

    def _take(self, token: str, posted: Any) -> Response:
        """Store the authenticator's answer, once, and commit it before the page gets a reply."""
        with self.core.store.read() as tx:
            link, now = self.links.find_link(tx, token), self.core.clock.now()
            outcome = signatures.find_outcome(tx, link) if link else None
            problem = signatures.describe_link_problem(tx, link, now) if link else ""
        if link is None or outcome is not None:  # if another tab was first, show its outcome
            return self._tell(token, posted)
        if problem:
            sentence = format_field_error(self.names, problem)
            raise api_bodies.ProblemError(HTTPStatus.GONE, sentence)
        if self.software and isinstance(posted, dict) and posted.get("software"):
            posted = self._answer_in_software(self.software, link, str(posted.get("name", "")))
        credential = signatures.parse_credential(link.kind, posted)
        if credential is None:
            raise api_bodies.ProblemError(HTTPStatus.BAD_REQUEST, UNREADABLE_CREDENTIAL_ERROR)
        self.keep(signatures.build_page_delivery(link, credential))
        return JSONResponse({}, HTTPStatus.ACCEPTED)

    def _answer_in_software(self, keys: SoftwareKeys, link: SigningLink, name: str) -> Any:
        """Return what the page would have posted, made with a software key; raises ProblemError."""
        with self.core.store.read() as tx:
            asked = self._build_question(tx, link, link.person, self.core.clock.now())
        found = keys.answer(asked.options)
        if found is None:
            raise api_bodies.ProblemError(HTTPStatus.CONFLICT, NO_SOFTWARE_KEY_ERROR)
        return found | {"name": name}

    def _tell(self, token: str, _posted: Any) -> Response:
        """Reply with the outcome of what the page posted: 202 while it is being decided."""
        with self.core.store.read() as tx:
            link = self.links.find_link(tx, token)
            outcome = signatures.find_outcome(tx, link) if link else None
        if outcome is None:
            raise api_bodies.ProblemError(HTTPStatus.NOT_FOUND, UNKNOWN_LINK_ERROR)
        said = {"detail": format_field_error(self.names, outcome)}
        return JSONResponse(said, HTTPStatus.OK if outcome else HTTPStatus.ACCEPTED)

    def _build_question(
        self, tx: Transaction, link: SigningLink, name: str, now: datetime
    ) -> PasskeyQuestion:
        """Return what the page of a link shows and asks, as stored now, if it can be used."""
        terms = self.core.policy.policy.passkeys
        if link.kind is SigningLinkKind.ENROL:
            options = signatures.build_creation_options(tx, link, name, self.address, terms)
            title, also = f"{ADD_PASSKEY_LABEL} for {name}", "also" if self.software else ""
            return PasskeyQuestion(title, NEW_PASSKEY_TEXT, [], ADD_PASSKEY_LABEL, options, also)
        shown = calls.find_call_with_revision(tx, link.call_id)
        assert shown is not None  # `describe_link_problem` has found it
        run = runs.get_run(tx, shown.call.run_id)
        whole = build_call_view_for_approvers(self.core.tools, tx, shown)
        asked, who = describe_people_in_review(tx, run, shown.call, now)
        if link.verb == CallVerb.BREAK_GLASS:
            view = review_dialog.render_break_glass_dialog(whole, asked=asked)
        else:
            view = review_dialog.render_review_dialog(whole, asked=asked, approvers=who)
        if link.reason:
            words = slack_text.sanitise_as_plain_text(link.reason, block_kit.MAX_DIALOG_TEXT_CHARS)
            own = block_kit.context_block("own", [block_kit.plain_text(f"You say: “{words}”")])
            view["blocks"].append(own)
        host, person = self.address.rp_id, link.person
        usable = signatures.list_signing_passkeys(tx, link.team, terms, now, host, person=person)
        options = signatures.build_request_options(link, host, usable)
        lead = RUN_AGAIN_TEXT if link.verb == UnknownCallResolution.AGAIN else SIGNS_EXACTLY_TEXT
        button = BUTTON_LABEL_BY_VERB[link.verb] if "submit" in view else ""
        software, keys = "", self.software
        if keys and (held_count := sum(keys.has_key(each.credential_id) for each in usable)):
            software = "only" if held_count == len(usable) else "also"
        return PasskeyQuestion(f"Sign as {name}", lead, view["blocks"], button, options, software)
