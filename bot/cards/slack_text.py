"""Text as Slack reads it: escaping, counting, mentions, times, the model's Markdown. Pure.

Nothing here decides anything or builds blocks.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache

from bot.tools import invisible_characters
from storage.masking import mask_secrets

USER_ID_PATTERN = re.compile(r"[UW][A-Z0-9]+")
USERGROUP_ID_PATTERN = re.compile(r"S[A-Z0-9]+")
CHANNEL_ID_PATTERN = re.compile(r"[CGD][A-Z0-9]+")
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
SIGNED_SUFFIX = " (signed by passkey)"
DATE_FORMAT = "{date_short_pretty} at {time}"
RELATIVE_FORMAT = "{ago}"  # "in 3 hours", "2 minutes ago"

_ISOLATE = "\u2068"  # first strong isolate, pop directional isolate
_ISOLATE_END = "\u2069"
# letters that are written from right to left, with their marks; the digits of their scripts
_RTL_LETTER = "[\u0590-\u065f\u066e-\u06ef\u06fa-\u08ff\ufb1d-\ufdff\ufe70-\ufefe"
_RTL_LETTER += "\U00010800-\U00010fff\U0001e800-\U0001efff]"
_RTL_DIGIT = "[\u0660-\u066d\u06f0-\u06f9]"
_RTL_PATTERN = re.compile(
    rf"{_RTL_LETTER}+(?:(?:, ?|[ .'\"-]){_RTL_LETTER}+)*|{_RTL_DIGIT}+(?:[.,]{_RTL_DIGIT}+)*"
)

_JSON_STRING_PATTERN = re.compile(r'"(?:[^"\\\n]|\\.)*"')

_CONTROL_SEQUENCE_PATTERN = re.compile(
    r"<(?:@([UWB]\w*)|!((?:channel|here|everyone|group|subteam\^|date\^)[^<>|\n]*))(?:\|([^<>\n]*))?>",
    re.IGNORECASE,
)
_CONTROL_START_PATTERN = re.compile(
    r"<(?=@[UWB]|!(?:channel|here|everyone|group|subteam|date))", re.IGNORECASE
)
_CODE_FENCE_PATTERN = re.compile(r" {0,3}(`{3,}|~{3,})[^\n]*")
# all repetitions are bounded, so that matching takes time linear in the text
_LINE_PREFIX_PATTERN = re.compile(
    r"^ {0,3}(?:#{1,6}[ \t]+|>[ \t]?|(?:`{3,}|~{3,})[^\n]*$)", re.MULTILINE
)
_MARKDOWN_LINK_PATTERN = re.compile(r"!?\[([^\[\]\n]{1,300})\]\([^()\s]{1,500}\)")
_STYLED_TEXT_PATTERN = re.compile(r"(?<!\w)(\*\*|__|~~|\*|_|`)(?=\S)([^\n]{1,150}?)(?<=\S)\1(?!\w)")


def show_hidden_characters(text: str) -> str:
    """Return the text with each hidden character written out as ⟨U+202E⟩.

    All other characters stay as they are, and so do those that join an emoji's parts.
    """
    if invisible_characters.certainly_has_no_hidden_characters(text):
        return text
    parts: list[str] = []
    start = 0
    for emoji in invisible_characters.EMOJI_PATTERN.finditer(text):
        parts += [_escape_hidden_characters(text[start : emoji.start()]), emoji[0]]
        start = emoji.end()
    return "".join([*parts, _escape_hidden_characters(text[start:])])


def _escape_hidden_characters(text: str) -> str:
    return text.translate(
        {
            ord(char): f"⟨U+{ord(char):04X}⟩"
            for char in set(text)
            if invisible_characters.is_hidden_character(char)
        }
    )


def isolate_right_to_left_text(text: str) -> str:
    """Return a value in Unicode isolate marks if a part of it is written from right to left.

    So it does not change the order of the text beside it. In JSON, and in text of several lines,
    each quoted text is isolated.
    """
    if text.isascii() or not _RTL_PATTERN.search(text):
        return text
    if "\n" in text or text[:1] in "[{":
        text = _JSON_STRING_PATTERN.sub(lambda found: isolate_right_to_left_text(found[0]), text)
    return text if "\n" in text else f"{_ISOLATE}{text}{_ISOLATE_END}"


def isolate_right_to_left_runs(text: str) -> str:
    """Return a text with isolate marks around each run of right-to-left words.

    So numbers beside a run stay in order. For sentences and previews, in which others have put
    values beside one another.
    """
    return text if text.isascii() else _RTL_PATTERN.sub(rf"{_ISOLATE}\g<0>{_ISOLATE_END}", text)


def escape_mrkdwn(text: str) -> str:
    """Escape the three characters that mrkdwn gives a meaning (it has no back-slash escapes)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescape_mrkdwn(text: str) -> str:
    """Return the text that `escape_mrkdwn` was given."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def count_slack_characters(text: str) -> int:
    """Return the length as Slack counts: escaped, characters beyond the BMP as two (to be safe)."""
    counted = len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
    return counted + 4 * text.count("&") + 3 * (text.count("<") + text.count(">"))


def user_mention(user: str) -> str:
    """Return the mention of a person for mrkdwn (`<@U…>`); "someone" if `user` is no user id."""
    return f"<@{user}>" if USER_ID_PATTERN.fullmatch(user) else "someone"


def decider_mention(user: str, stand_ins: Mapping[str, str], signers: Collection[str] = ()) -> str:
    """Return the mention of a person whose vote counted, after the delegate who gave it, if any.

    "<@UCLEO>, for <@UANA>"; `stand_ins`: the delegates, by the person they decided for. `signers`:
    the people whose votes are signed.
    """
    stand_in = f"{user_mention(stand_ins[user])}, for " if user in stand_ins else ""
    return f"{stand_in}{user_mention(user)}{SIGNED_SUFFIX if user in signers else ''}"


def group_mention(group: str) -> str:
    """Return the mention of a user group for mrkdwn (`<!subteam^S…>`).

    "a user group" if `group` is no user group's id.
    """
    return f"<!subteam^{group}>" if USERGROUP_ID_PATTERN.fullmatch(group) else "a user group"


def list_mentions(text: str) -> list[str]:
    """Return the ids of the people and user groups that a mrkdwn text mentions."""
    return re.findall(r"<(?:@|!subteam\^)([A-Z0-9]+)[|>]", text)


def channel_mention(channel: str) -> str:
    """Return the mention of a channel (`<#C…>`); "a channel" if `channel` is no channel id."""
    return f"<#{channel}>" if CHANNEL_ID_PATTERN.fullmatch(channel) else "a channel"


def join_mentions(ids: Sequence[str], limit: int = 1_000) -> str:
    """Return the mentions of people and channels for mrkdwn, the first `limit`; "" for none."""
    found = [channel_mention(each) if each[0] in "CG" else user_mention(each) for each in ids]
    found[limit:] = [f"{len(found) - limit} more"] if len(found) > limit else []
    return ", ".join(found)


def spell_number(count: int) -> str:
    """Return a number up to ten as a word ("two", "three"), a larger one in digits."""
    return _NUMBERS[count] if 0 <= count < len(_NUMBERS) else str(count)


def format_in_utc(moment: datetime) -> str:
    """Return a time in UTC for places where Slack cannot localise times: "21 Nov 2026, 14:02 UTC".

    Takes an aware datetime.
    """
    utc = moment.astimezone(UTC)
    return f"{utc.day} {utc:%b %Y, %H:%M} UTC"


def format_local_time(moment: datetime) -> str:
    """Return a time as mrkdwn that Slack shows in the reader's own zone.

    Takes an aware datetime.
    """
    return f"<!date^{int(moment.timestamp())}^{DATE_FORMAT}|{format_in_utc(moment)}>"


def format_time_with_countdown(moment: datetime) -> str:
    """Return a time as mrkdwn with the time left, which Slack updates: "… at 14:02 (in 3 hours)".

    Takes an aware datetime.
    """
    return f"<!date^{int(moment.timestamp())}^{DATE_FORMAT} ({{ago}})|{format_in_utc(moment)}>"


def format_relative_time(moment: datetime) -> str:
    """Return a time as mrkdwn that Slack shows, and updates, as "in 3 hours" or "2 minutes ago".

    Takes an aware datetime.
    """
    return f"<!date^{int(moment.timestamp())}^{RELATIVE_FORMAT}|{format_in_utc(moment)}>"


def shorten_text(text: str, limit: int, lines: int | None = None) -> str:
    """Shorten the text to what Slack counts as `limit` (>= 40) characters, saying how much is cut.

    For places where the whole text can be read elsewhere. `lines`: the most lines as well.
    """
    kept_length = len(text) if lines is None else len("\n".join(text.split("\n", lines)[:lines]))
    if count_slack_characters(text) <= limit and kept_length == len(text):
        return text
    low, high = 0, min(kept_length, limit)
    while low < high:
        middle = (low + high + 1) // 2
        if count_slack_characters(text[:middle] + _more_characters_note(text, middle)) <= limit:
            low = middle
        else:
            high = middle - 1
    return text[:low] + _more_characters_note(text, low)


def _more_characters_note(text: str, kept: int) -> str:
    opened = text.count(_ISOLATE, 0, kept) > text.count(_ISOLATE_END, 0, kept)
    return f"{_ISOLATE_END if opened else ''}… ({len(text) - kept:,} more characters)"


def shorten_to_words(text: str, limit: int) -> str:
    """Return the text; if it is too long, its whole sentences, or else words, that fit, and "…"."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    sentences = max(head.rfind(mark) for mark in (". ", "! ", "? ")) + 1
    if sentences > limit // 2:
        return f"{head[:sentences]} …"
    return f"{(head.rpartition(' ')[0] or head).rstrip()}…"


def replace_notifying_mentions(text: str) -> str:
    """Return the model's Markdown with every mention that notifies people turned into text.

    `<!here>` becomes "@here", `<@U1|ana>` "@ana".
    """

    def name(match: re.Match[str]) -> str:
        user, command, label = match.groups()
        if (command or "").lower().startswith("date^"):
            return label or command
        return "@" + (label or user or command.rpartition("^")[2]).lstrip("@")

    # A mention inside another may become whole in the first pass; its opening is then replaced by a
    # quotation mark.
    return _CONTROL_START_PATTERN.sub("‹", _CONTROL_SEQUENCE_PATTERN.sub(name, text))


def strip_markdown(text: str) -> str:
    """Return Markdown without its marks, for a notification: `**Done**` becomes "Done"."""
    text = _MARKDOWN_LINK_PATTERN.sub(r"\1", _LINE_PREFIX_PATTERN.sub("", text))
    for _ in range(2):  # twice, for bold within italics
        text = _STYLED_TEXT_PATTERN.sub(r"\2", text)
    return text


def split_markdown(text: str, limit: int = 11_000) -> list[str]:
    """Split Markdown into parts that Slack counts as at most `limit` (>= 100) characters each.

    Blank text has no parts. Parts end after a paragraph if possible, else after a line; a code
    fence is closed and opened again. Nothing but blank lines at the borders is lost.
    """
    parts: list[str] = []
    lines = _split_long_lines(text, limit // 2)
    fence = ""
    while lines:
        taken, fence_after = _choose_lines_for_part(lines, fence, limit)
        body = "".join(lines[:taken])
        lines = lines[taken:]
        opened = f"{fence}\n" if fence else ""
        closed = (
            f"{'' if body.endswith(chr(10)) else chr(10)}{_get_fence_marks(fence_after)}"
            if fence_after and lines
            else ""
        )
        part = opened + body + closed
        if body.strip():
            parts.append(part if fence else part.strip("\n"))
        fence = fence_after
    return parts


def _choose_lines_for_part(lines: list[str], fence: str, limit: int) -> tuple[int, str]:
    """Return how many lines go into the next part, at least one, and the open code fence or "".

    The fence is named by its opening line.
    """
    room = limit - (count_slack_characters(fence) + 1 if fence else 0)
    best, best_fence, paragraph = 1, _get_fence_open_after(fence, lines[0]), 0
    used, open_fence = 0, fence
    for index, line in enumerate(lines):
        open_fence = _get_fence_open_after(open_fence, line)
        used += count_slack_characters(line)
        if index and used + (len(_get_fence_marks(open_fence)) + 1 if open_fence else 0) > room:
            if paragraph > 1:
                return paragraph, ""
            return best, best_fence
        best, best_fence = index + 1, open_fence
        if not open_fence and not line.strip():
            paragraph = index + 1
    return best, best_fence


def _get_fence_open_after(fence: str, line: str) -> str:
    """Return the opening line of the code fence that is open after this line; "" for none."""
    match = _CODE_FENCE_PATTERN.fullmatch(line.rstrip("\n"))
    if not match:
        return fence
    if not fence:
        return line.strip() if len(line.strip()) <= 40 else match.group(1)
    closes = line.strip() == match.group(1) and match.group(1).startswith(_get_fence_marks(fence))
    return "" if closes else fence


def _get_fence_marks(fence: str) -> str:
    match = _CODE_FENCE_PATTERN.fullmatch(fence)
    return match.group(1) if match else ""


def _split_long_lines(text: str, limit: int) -> list[str]:
    """Return the text's lines with their line ends, each within `limit` as Slack counts.

    One longer than the limit is divided, at a space if there is one.
    """
    lines: list[str] = []
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        while count_slack_characters(line) > limit:
            cut = _count_fitting_characters(line, limit)
            space = line.rfind(" ", 1, cut)
            cut = space + 1 if space > cut // 2 else cut
            lines.append(line[:cut])
            line = line[cut:]
        lines.append(line)
    return lines


def _count_fitting_characters(text: str, limit: int) -> int:
    """Return how many leading characters Slack counts as at most `limit` (at least one)."""
    used = 0
    for index, char in enumerate(text[: limit + 1]):
        used += count_slack_characters(char)
        if used > limit:
            return max(index, 1)
    return len(text)


def split_into_chunks(text: str, limit: int) -> list[str]:
    """Split the text into pieces that Slack counts as at most `limit` characters each.

    Joined again the pieces are the text.
    """
    pieces: list[str] = []
    while count_slack_characters(text) > limit:
        cut = _count_fitting_characters(text, limit)
        pieces.append(text[:cut])
        text = text[cut:]
    return [*pieces, text]


def strip_mrkdwn(text: str) -> str:
    """Return one of the bot's sentences without mrkdwn, for places that show plain text only."""
    text = re.sub(r"<!date\^\d+\^[^|>]*\|([^>]*)>", r"\1", text)
    text = re.sub(r"<@[^|>]+\|([^>]+)>", r"\1", text)
    text = re.sub(r"<@[^>]+>", "somebody", text)
    text = text.replace(_ISOLATE, "").replace(_ISOLATE_END, "")  # only ours: others are escaped
    return html.unescape(text.replace("*", ""))


# Labels for the values of a call: made from keys, and told apart if they look alike.

LABEL_SEPARATOR = " › "  # between the label of a value and that of a part of it
# letters of other scripts that look like a Latin one, and what they look like
LOOKALIKES = dict(
    zip(
        "авеѕіјкмнорстухԁԛѡһӏьαβεζηικμνορτυχωγσıɑɡℓi01",
        "abesljkmhopctyxdqwhlbabeznlkuvoptuxwyolagllol",
        strict=True,
    )
)


def humanise_field_name(name: str) -> str:
    """Return a field's name as a label: "order_id" -> "Order id"."""
    words = " ".join(name.replace("_", " ").split())
    return words[:1].upper() + words[1:] or name


def build_unique_key_label(key: str) -> str:
    """Return a label for a key that no schema describes; no two keys have the same label.

    A key of small letters, as programs write one, becomes words; any other key is added in full
    behind its words.
    """
    label = humanise_field_name(key)
    words = key.split("_")
    is_plain = all(word.isalnum() and word == _normalise_lowercase(word) for word in words)
    if is_plain and (key.isascii() or not any(map(_is_disguised_as_latin, words))):
        return label
    return f"{label} ({format_json_key_path([key])})".strip()


def _normalise_lowercase(word: str) -> str:
    return unicodedata.normalize("NFKC", word).lower()


def _is_disguised_as_latin(word: str) -> bool:
    """Return whether a word of another script looks like one in Latin letters."""
    return not word.isascii() and fold_lookalike_characters(word).isascii()


def distinguish_labels(labels: Sequence[str], keys: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the labels, adding the keys to each that a reader could mistake for another.

    They are also added to a label that mixes scripts in a word, or has no letters. Keys are written
    in ASCII, so that no two of them look the same.
    """
    looks = [fold_lookalike_characters(label) for label in labels]
    alike = {look for look, count in Counter(looks).items() if count > 1}
    return [
        f"{label} ({format_json_key_path(key_path)})".strip()
        if look in alike
        or (
            _is_misleading_label(label)
            and not label.endswith(f"({format_json_key_path(key_path[-1:])})")
        )
        else label
        for label, look, key_path in zip(labels, looks, keys, strict=True)
    ]


def format_json_key_path(keys: Sequence[str]) -> str:
    """Return keys as they are in JSON, in ASCII: `"options" › "a.b"`."""
    return LABEL_SEPARATOR.join(json.dumps(key) for key in keys)


@lru_cache(4096)
def fold_lookalike_characters(label: str) -> str:
    """Return a text that is equal for labels that a reader could mistake for one another."""
    folded = unicodedata.normalize("NFKD", label).casefold()
    return "".join(LOOKALIKES.get(char, char) for char in folded if char.isalnum()) or label


@lru_cache(4096)
def _is_misleading_label(label: str) -> bool:
    """Return whether a label may mislead by its characters.

    A word mixes scripts, a character cannot be seen, or there is no letter or digit.
    """
    if not any(map(str.isalnum, label)):
        return True
    if label.isascii():
        return False
    return not label.isprintable() or any(
        len({_get_script_name(char) for char in word if char.isalpha()}) > 1
        for word in "".join(char if char.isalnum() else " " for char in label).split()
    )


def _get_script_name(char: str) -> str:
    name = unicodedata.name(char, "").split(" ")[0]
    # Japanese and Korean words may be written in several scripts
    return "CJK" if name in ("CJK", "HIRAGANA", "KATAKANA", "HANGUL") else name


FAILED_MIDWAY_TEXT = "It had begun, so part of it may have happened."
_VERBS = {"approve": "approved", "reject": "rejected", "edit": "edited", "cancel": "cancelled"}
_VERBS |= {"break_glass": "ran", "look": "looked at", "object": "objected to"}


def sanitise_for_mrkdwn(text: str, limit: int = 300) -> str:
    """Return others' words as one line of mrkdwn: masked, hidden characters shown, cut, escaped."""
    return escape_mrkdwn(sanitise_as_plain_text(text, limit))


def sanitise_as_plain_text(text: str, limit: int = 300) -> str:
    """Return others' words as one line of plain text: masked, hidden characters shown, cut."""
    visible = show_hidden_characters(" ".join(mask_secrets(text).split()))
    return shorten_text(isolate_right_to_left_runs(visible), limit)


def format_past_tense(verb: str) -> str:
    """Return the past of a verb ("approve": "approved"); other words unchanged."""
    return _VERBS.get(verb, verb)


def join_effects(effects: Sequence[str]) -> str:
    """Join effect sentences on one line: the first three, and how many others there are."""
    named = [sanitise_for_mrkdwn(each, 160) for each in effects[:3]]
    more = len(effects) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more > 0 else "")
