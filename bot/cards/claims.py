"""Checks whether a model's text claims what the record of calls contradicts. Pure.

A filter and no guarantee: it only makes the record's line bold, and that line is true either way.
So it prefers a false alarm to a miss.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from bot.cards.answers import CallOutcome
from bot.cards.views import strip_invisible_characters

MOST, LONGEST = 20_000, 500  # characters looked at, of a text and of a sentence
_LIGHT = (  # what somebody does who changes nothing
    r"(?:looked|checked|found|searched|asked|proposed|tried|prepared|noticed|needed|listed"
    r"|compared|wanted|reviewed|received|attempted|requested|queued|planned|suggested"
    r"|drafted|verified|assumed|failed|stopped|waited|learned|located|confirmed|used"
    r"|talked|called|opened|answered|explained|calculated|counted|added|summarised"
    r"|summarized|gathered|fetched|retrieved|pulled|identified|missed|misunderstood"
    r"|started|understood|recommended|considered|expected|intended|offered|included"
    r"|attached|assigned|mentioned|described|outlined|noted|consulted|examined|tracked)"
)
_PAST = (
    r"(?:[a-z]{2,}ed|sent|paid|done|made|put|set|ran|run|wrote|written|gave|given|cut|reset|bought"
    r"|sold|undone|rebuilt)"
)
_SOON = r"(?:(?:now|already|just|also|all|both|successfully|indeed|then|finally|duly) )*"
_MADE = (
    r"(?:done|refunded|complete|completed|executed|processed|cancell?ed|deleted|removed|sent|paid"
    r"|closed|issued|updated|changed|transferred|booked|posted|published|finished|made|applied"
    r"|restarted|deployed|merged|blocked|revoked|granted|ordered|reset|dropped|written|created"
    r"|reimbursed|credited|resolved|scheduled|moved|voided)"
)
_TICK = r"[✅☑✔🎉👍]"
_FIRST = (  # what says itself that it was done, by whoever speaks
    rf"\b(?:i|we)(?:'ve|'d)? (?:have |had )?{_SOON}(?!{_LIGHT}\b){_PAST}\b",
    rf"^\W*(?:it's |it is |that's |that is |all |both |everything(?: is|'s) )?{_SOON}{_MADE}\b",
    rf"^\W*{_TICK}",
    r"^\W*on record\b",
    r"^\W*(?:(?!(?:is|are|was|were) )\w+ ){1,6}(?:complete|done|issued|processed|executed|finished"
    r"|sent)\W*$",
    r"\b(?:готово|сделано|выполнен\w*|возвращ[её]н\w*|отменен\w*|отправлен\w*|удален\w*|zwróc\w+"
    r"|wykonan\w+|zakończon\w+|gotowe|anulowan\w+|wysłan\w+|usunięt\w+)\b",
    r"(?:返金|完了|実行|送信|削除|キャンセル|処理)(?:を|が|は)?(?:し|され|いたし)ました|完了です"
    r"|已(?:退款|完成|取消|发送|刪除|删除|执行|處理|处理)|완료|환불(?:했|되었|됐)",
    r"\b(?:ich habe|wir haben|wurde|ist|sind)\b.*\b(?:erledigt|erstattet|storniert|überwiesen"
    r"|gesendet|verschickt|gelöscht|ausgeführt|abgeschlossen|durchgeführt|geändert|bezahlt)\b",
    r"^\W*(?:erledigt|fertig|erstattet|fait|terminé|hecho|listo|feito|pronto|fatto|gedaan)\b",
    r"\b(?:j'ai|nous avons|a été|ont été|c'est)\b.*\b(?:remboursée?s?|effectuée?s?|annulée?s?"
    r"|envoyée?s?|supprimée?s?|fait|terminée?s?|payée?s?)\b",
    r"\b(?:he|hemos|ha sido|han sido|fue|está)\b.*\b(?:reembolsad[oa]|realizad[oa]|completad[oa]"
    r"|cancelad[oa]|enviad[oa]|eliminad[oa]|pagad[oa]|hecho)\b",
    r"\b(?:foi|foram|está|ho|abbiamo|è stat[oa]|ik heb|we hebben|is)\b.*\b(?:reembolsad[oa]"
    r"|concluíd[oa]|rimborsat[oa]|completat[oa]|eseguit[oa]|annullat[oa]|inviat[oa]|terugbetaald"
    r"|uitgevoerd|voltooid|geannuleerd|verzonden)\b",
)
_PASSIVE = (  # what may as well be told of something that was looked up
    rf"\b(?:has|have|'s|'ve) {_SOON}been {_SOON}{_PAST}\b",
    rf"\b(?:is|are|was|were|got|'s) {_SOON}{_MADE}\b",
    r"\b(?:successful(?:ly)?|went through|took effect)\b",
)
_APPROVAL = (
    rf"[\w.>-]+ {_SOON}"
    r"(?:approved|authori[sz]ed|countersigned|signed off)\b",
    r"\b(?:approved|authori[sz]ed|countersigned|signed off) by\b",
    rf"(?:^|{_TICK})[\W_]*(?:approved|authori[sz]ed|countersigned)\b",
    r"\b(?:genehmigt|freigegeben|approuvée?s?|autorisée?s?|aprobad[oa]|aprobó|aprovad[oa]|aprovou"
    r"|approvat[oa]|goedgekeurd)\b",
)
# what makes a sentence no claim, and an answer one that owns up
_DENIES = (
    r"\b(?:not|cannot|no|nobody|none|nothing|neither|never|without|unless|until|once|if|whether|when"
    r"|will|would|should|could|may|might|please|to be|needs?|unable|reject\w*|declin\w*|refus\w*"
    r"|den(?:y|ied)|fail\w*|errors?|expire[ds]?|unknown|unclear|uncertain|unsure|wait\w*|pending"
    r"|before|withdr\w+|unapproved|un\w+ed|nicht|kein\w*|nichts|niemand|abgelehnt|wartet|falls"
    r"|sobald|wenn|unbekannt|pas|refusée?s?|rejetée?s?|attend|si|quand|rechazad[oa]|nada|nadie"
    r"|rejeitad[oa]|não|ninguém|non|nessuno|rifiutat[oa]|se|niet|geen|niemand|afgewezen)\b"
    r"|n't\b|\?|\b(?:не|нет|ничего|никто|nie|nic|nikt)\b|ません|ない|未|没有|沒有|않|못"
)
_TROUBLE_FREE = re.compile(r"\b(?:no|without(?: any)?) (?:issues?|problems?|errors?|trouble)\b")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+|(?<=,)\s+(?:and|und|et|y|e|en)\s+")


class ActionClaims(NamedTuple):
    """What a text claims was done or approved."""

    says_speaker_acted: bool  # that whoever speaks has done something
    says_something_done: bool  # the same, or that something was done
    says_approved: bool  # that somebody has approved something
    says_not_done: bool  # somewhere, that something was not done, or is not known


def detect_action_claims(text: str) -> ActionClaims:
    """Return what a model's text claims was done or approved; each sentence counts by itself."""
    plain = (
        re.sub(r"[*_`~>#]+", "", strip_invisible_characters(text[:MOST]))
        .casefold()
        .replace("’", "'")
    )
    plain = _TROUBLE_FREE.sub("", plain)
    first, passive, approval, denies = _compile_patterns()
    done = told = approved = False
    for sentence in (each.strip()[:LONGEST] for each in _SENTENCE.split(plain) if each.strip()):
        if denies.search(sentence):
            continue
        done = done or bool(first.search(sentence))
        told = told or bool(passive.search(sentence))
        approved = approved or bool(approval.search(sentence))
    return ActionClaims(done, done or told, approved, bool(denies.search(plain)))


def do_claims_contradict_record(
    claims: ActionClaims, ended: Sequence[CallOutcome], *, whole: bool
) -> bool:
    """Return whether a text claims that something was done which, by the record, may not have been.

    `whole`: it is the last text of the request, and has to tell of all of its calls.
    """
    if not any(each.is_done for each in ended):
        return claims.says_something_done if ended else claims.says_speaker_acted
    undone = any(not each.is_done for each in ended)
    return whole and undone and claims.says_something_done and not claims.says_not_done


@cache
def _compile_patterns() -> tuple[re.Pattern[str], ...]:
    """Return the compiled patterns; compiled when first used, as that would slow each start."""
    joined = ("|".join(each) for each in (_FIRST, _PASSIVE, _APPROVAL, (_DENIES,)))
    return tuple(re.compile(each, re.MULTILINE) for each in joined)
