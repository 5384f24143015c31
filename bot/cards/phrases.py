"""Detects, by its words and in many languages, what a model's text claims or asks for. Pure.

If it finds a claim that contradicts the record, the record is shown in bold below the text. What it
says is true in any case, so this filter, which is no guarantee, prefers a false alarm to a miss.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from bot.cards.answers import CallOutcome
from bot.cards.views import strip_invisible_characters
from bot.tools.invisible_characters import is_hidden_character

MAX_TEXT_CHARS = 20_000  # only this much of a text is checked
MAX_SENTENCE_CHARS = 500
_HARMLESS_VERBS = (  # actions that change nothing
    r"(?:looked|checked|found|searched|asked|proposed|tried|prepared|noticed|needed|listed"
    r"|compared|wanted|reviewed|received|attempted|requested|queued|planned|suggested"
    r"|drafted|verified|assumed|failed|stopped|waited|learned|located|confirmed|used"
    r"|talked|called|opened|answered|explained|calculated|counted|added|summarised"
    r"|summarized|gathered|fetched|retrieved|pulled|identified|missed|misunderstood"
    r"|started|understood|recommended|considered|expected|intended|offered|included"
    r"|attached|assigned|mentioned|described|outlined|noted|consulted|examined|tracked)"
)
_PAST_VERBS = (
    r"(?:[a-z]{2,}ed|sent|paid|done|made|put|set|ran|run|wrote|written|gave|given|cut|reset|bought"
    r"|sold|undone|rebuilt)"
)
_ADVERBS = r"(?:(?:now|already|just|also|all|both|successfully|indeed|then|finally|duly) )*"
_DONE_WORDS = (
    r"(?:done|refunded|complete|completed|executed|processed|cancell?ed|deleted|removed|sent|paid"
    r"|closed|issued|updated|changed|transferred|booked|posted|published|finished|made|applied"
    r"|restarted|deployed|merged|blocked|revoked|granted|ordered|reset|dropped|written|created"
    r"|reimbursed|credited|resolved|scheduled|moved|voided)"
)
_TICK_EMOJI = r"[✅☑✔🎉👍]"
_OWN_ACTION_CLAIMS = (  # claims by the writer that something was done
    rf"\b(?:i|we)(?:'ve|'d)? (?:have |had )?{_ADVERBS}(?!{_HARMLESS_VERBS}\b){_PAST_VERBS}\b",
    rf"^\W*(?:it's |it is |that's |that is |all |both |everything(?: is|'s) )?"
    rf"{_ADVERBS}{_DONE_WORDS}\b",
    rf"^\W*{_TICK_EMOJI}",
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
_PASSIVE_CLAIMS = (  # passive claims, which may also report something that was looked up
    rf"\b(?:has|have|'s|'ve) {_ADVERBS}been {_ADVERBS}{_PAST_VERBS}\b",
    rf"\b(?:is|are|was|were|got|'s) {_ADVERBS}{_DONE_WORDS}\b",
    r"\b(?:successful(?:ly)?|went through|took effect)\b",
)
_APPROVAL_CLAIMS = (
    rf"[\w.>-]+ {_ADVERBS}"
    r"(?:approved|authori[sz]ed|countersigned|signed off)\b",
    r"\b(?:approved|authori[sz]ed|countersigned|signed off) by\b",
    rf"(?:^|{_TICK_EMOJI})[\W_]*(?:approved|authori[sz]ed|countersigned)\b",
    r"\b(?:genehmigt|freigegeben|approuvée?s?|autorisée?s?|aprobad[oa]|aprobó|aprovad[oa]|aprovou"
    r"|approvat[oa]|goedgekeurd)\b",
)
# words that make a sentence no claim, and an answer one that admits what was not done
_DENIAL = (
    r"\b(?:not|cannot|no|nobody|none|nothing|neither|never|without|unless|until|once|if|whether|when"
    r"|will|would|should|could|may|might|please|to be|needs?|unable|reject\w*|declin\w*|refus\w*"
    r"|den(?:y|ied)|fail\w*|errors?|expire[ds]?|unknown|unclear|uncertain|unsure|wait\w*|pending"
    r"|before|withdr\w+|unapproved|un\w+ed|nicht|kein\w*|nichts|niemand|abgelehnt|wartet|falls"
    r"|sobald|wenn|unbekannt|pas|refusée?s?|rejetée?s?|attend|si|quand|rechazad[oa]|nada|nadie"
    r"|rejeitad[oa]|não|ninguém|non|nessuno|rifiutat[oa]|se|niet|geen|niemand|afgewezen)\b"
    r"|n't\b|\?|\b(?:не|нет|ничего|никто|nie|nic|nikt)\b|ません|ない|未|没有|沒有|않|못"
)
_TROUBLE_FREE_PATTERN = re.compile(
    r"\b(?:no|without(?: any)?) (?:issues?|problems?|errors?|trouble)\b"
)
_CLAUSE_END_PATTERN = re.compile(r"(?<=[.!?;])\s+|\n+|(?<=,)\s+(?:and|und|et|y|e|en)\s+")


class ActionClaims(NamedTuple):
    """What a text claims was done or approved."""

    says_speaker_acted: bool  # the writer claims to have done something
    says_something_done: bool  # the same, or a claim that something was done
    says_approved: bool  # that somebody has approved something
    says_not_done: bool  # some sentence says that something was not done, or is not known


def detect_action_claims(text: str) -> ActionClaims:
    """Return what a model's text claims was done or approved; each sentence counts by itself."""
    plain = (
        re.sub(r"[*_`~>#]+", "", strip_invisible_characters(text[:MAX_TEXT_CHARS]))
        .casefold()
        .replace("’", "'")
    )
    plain = _TROUBLE_FREE_PATTERN.sub("", plain)
    first, passive, approval, denies = _compile_patterns()
    speaker_acted = something_done = approved = False
    for sentence in (
        each.strip()[:MAX_SENTENCE_CHARS]
        for each in _CLAUSE_END_PATTERN.split(plain)
        if each.strip()
    ):
        if denies.search(sentence):
            continue
        speaker_acted = speaker_acted or bool(first.search(sentence))
        something_done = something_done or bool(passive.search(sentence))
        approved = approved or bool(approval.search(sentence))
    return ActionClaims(
        speaker_acted, speaker_acted or something_done, approved, bool(denies.search(plain))
    )


def do_claims_contradict_record(
    claims: ActionClaims, ended: Sequence[CallOutcome], *, whole: bool
) -> bool:
    """Return whether a text claims that something was done which, by the record, may not have been.

    `whole`: the text is the last of the request, so it should also say which calls were not done.
    """
    if not any(each.is_done for each in ended):
        return claims.says_something_done if ended else claims.says_speaker_acted
    undone = any(not each.is_done for each in ended)
    return whole and undone and claims.says_something_done and not claims.says_not_done


@cache
def _compile_patterns() -> tuple[re.Pattern[str], ...]:
    """Return the patterns of claims and denials; compiled on first use, not to slow each start."""
    joined = (
        "|".join(each)
        for each in (_OWN_ACTION_CLAIMS, _PASSIVE_CLAIMS, _APPROVAL_CLAIMS, (_DENIAL,))
    )
    return tuple(re.compile(each, re.MULTILINE) for each in joined)


# Whether a text asks for an approval. This too is a filter and no guarantee: one can be asked for
# without any of these words. That is safe because an answer decides nothing. So when in doubt the
# filter lets a text through rather than block a question for facts: what an approval number is, who
# approved, when somebody may be called, which of two is meant.

# Turning a text into plain letters, as a reader would read it, without decoration. Pure.

# letters of other scripts that look like Latin ones, after case folding; NFKD does full-width,
# mathematical, circled and superscript letters
_LATIN_LOOKALIKES = str.maketrans(
    "авекмнорстухіјѕԁԛԝһӏүгпиѵьαβγεηικνορστυχωϲϳɑɡɩᴀᴄᴅᴇᴊᴋᴍᴏᴘᴛᴜᴠᴡᴢʀɢɪɴʟꜱʏսօցոքհյƿ",
    "abekmhopctyxijsdqwhlyrnuvbabyenikvopotuxwcjagiacdejkmoptuvwzrginlsyuognfhjp",
)
_LETTER = r"[^\W\d_]"
_SPACED_LETTERS_PATTERN = re.compile(
    rf"(?<!\w){_LETTER}(?:[\s._*·•|/\\-]{{1,3}}{_LETTER}(?!\w)){{3,}}"
)
_SEPARATORS_PATTERN = re.compile(r"[\s._*·•|/\\-]+")
# what only decorates: emoji and other symbols, accents, hidden characters
_DECORATIVE_CATEGORIES = ("So", "Sk", "Cf", "Cs", "Co", "Mn", "Me", "Cn")


def normalise_letters(text: str) -> str:
    """Return the text in lower-case plain letters, to see through disguised spellings.

    Symbols, emoji, accents and hidden characters are dropped, full-width and look-alike letters
    become Latin ones, and letters that are spaced out are joined.
    """
    wide = unicodedata.normalize("NFKD", text)
    kept = (
        each
        for each in wide
        if each in "\n\t"
        or not (is_hidden_character(each) or unicodedata.category(each) in _DECORATIVE_CATEGORIES)
    )
    plain_text = "".join(kept).casefold().replace("_", " ")
    words = (
        each if each.isascii() else each.translate(_LATIN_LOOKALIKES) for each in plain_text.split()
    )
    plain_text = " ".join(words)
    return _SPACED_LETTERS_PATTERN.sub(
        lambda match: _SEPARATORS_PATTERN.sub("", match[0]), plain_text
    )


# where a clause begins: what follows is a request itself, not a mention of one
_SENTENCE_START = (
    r"(?:^|[.?!;:,(¿¡\"“„«–—]|\b(?:and|so|then|but|und|dann|also|et|alors|y|entonces|então|e|allora"
    r"|en|dus))\s*(?:(?:please|bitte|ok|okay|so|well|yes|now|ja|oui|sí|sim|sì)[ ,]+)*"
)
_APPROVE_VERBS = (
    r"(?:approve|authori[sz]e|countersign|permit|green-?light|sign (?:(?:this|it|that) )?off)"
)
_APPROVAL_NOUNS = (
    r"(?:approval|permission|consent|ok|okay|go[- ]ahead|green light|blessing|sign-off"
    r"|authori[sz]ation)"
)
_ACTION_VERBS = (
    r"(?:go ahead|proceed|continue|run|execute|do (?:it|this|that|so)|refund|cancel|delete|remove"
    r"|drop|send|post|publish|pay|transfer|charge|change|update|book|order|buy|issue|grant|close"
    r"|block|reset|restart|deploy|merge|void|revoke)"
)
_ACTION_NOUNS = (
    r"(?:(?:the|my|this|that) (?:\w+ )?(?:refund|payment|transfer|cancellation|deletion|change"
    r"|purchase|booking|plan|action))"
)
_OPENING_REQUESTS = (  # requests to the reader to approve, and labels of buttons for that
    # English
    rf"(?:(?:do|can|could|will|would|won't|can't) you )?(?:please |kindly |now |also )*"
    rf"{_APPROVE_VERBS}\b",
    r"(?:(?:do|can|could|will|would) you )?(?:please )?allow (?:me|us|this|it|that)\b",
    r"allow$",
    r"(?:(?:do|can|could|will|would) you )(?:please )?(?:consent|agree) (?:to|(?:that|if) (?:i|we))"
    r"\b",
    r"(?:(?:do|can|could|will|would) you )?(?:please )?give (?:me |us )?(?:your|the|a) (?:quick )?"
    rf"{_APPROVAL_NOUNS}\b",
    rf"(?:i|we) need your {_APPROVAL_NOUNS}\b"
    rf"|(?:does|has) (?:\w+ ){{1,4}}(?:have )?your {_APPROVAL_NOUNS}$",
    rf"(?:do|did|have) (?:i|we) (?:have|get|got) (?:your|the|a) {_APPROVAL_NOUNS}\b",
    r"(?:is|would) (?:it|this|that)(?: be)? (?:ok|okay|fine|alright|all right|acceptable)"
    r"(?: with you| for you)? (?:to|if (?:i|we)|for (?:me|us) to)\b",
    r"(?:are|would) you (?:be )?(?:ok|okay|fine|happy|comfortable) (?:with|if) (?:me|us|i|we|this"
    r"|that|it|(?:the|a) (?:\w+ ){0,2}(?:refund|payment|transfer|cancellation|deletion|change))\b",
    r"(?:ok|okay|fine) (?:to|if (?:i|we)|for me to|with (?:me|us) \w+ing)\b",
    r"(?:go ahead|proceed)(?: (?:with|and|now)\b|$)",
    r"i (?:hereby )?(?:approve|authori[sz]e|consent|allow (?:it|this|that))\b",
    r"(?:is|are) (?:\w+ ){1,4}approved(?: (?:by you|now|yet))?$",
    # German
    r"(?:genehmig|erlaub|bewillig|autorisier)(?:e?st|en|t) (?:du|sie|ihr)\b",
    r"(?:stimmst du|stimmen sie) .*zu$",
    r"(?:gibst du|geben sie) .*frei$",
    r"(?:(?:kannst du|könntest du|können sie|könnten sie|würden sie|würdest du) .*)?"
    r"(?:genehmigen|freigeben|zustimmen|erlauben|autorisieren)$",
    r"(?:bist du|sind sie|seid ihr) (?:damit |mit \w+ \w+ )?einverstanden\b",
    r"(?:habe ich|haben wir) (?:deine|ihre|eure|die|dein|ihr) (?:zustimmung|erlaubnis|genehmigung"
    r"|freigabe|einwilligung|ok|okay)\b",
    r"(?:ist|sind) (?:\w+ ){1,4}(?:genehmigt|freigegeben|bewilligt)$",
    r"ich (?:genehmige|erlaube|bewillige|stimme zu)\b",
    # French
    r"(?:approuve[sz]?|autorise[sz]?|permettez|permets|valide[sz]?)-(?:tu|vous)\b",
    r"(?:peux-tu|pouvez-vous|pourriez-vous|pourrais-tu|veuillez) (?:m'|nous )?"
    r"(?:approuver|autoriser|valider|permettre|donner (?:votre|ton) accord)\b",
    r"(?:ai-je|avons-nous) (?:votre|ton|l'|le|la) ?(?:accord|autorisation|permission|feu vert)\b",
    r"(?:es-tu|êtes-vous) d'accord (?:pour|que|avec)\b",
    r"j'(?:approuve|autorise)\b|(?:approuver|autoriser)$",
    # Spanish, Portuguese, Italian
    r"(?:usted |você |me |mi |ci )?(?:apruebas?|autori[zc]as?|aprovas?|approv[ai]|autorizz[ai]"
    r"|permetti|permites?)\b",
    r"(?:puede[s]?|podrías?|pode[s]?|poderia|puoi|può|potresti) (?:usted |você )?(?:aprobar|aprovar"
    r"|approvare|autori[zc]ar|autorizzare|permitir)\b",
    r"(?:tengo|tenho|ho) (?:a |il |la )?(?:tu|su|sua|tua|tuo|suo|vuestro) (?:permiso|aprobación"
    r"|consentimiento|autorización|permissão|aprovação|autorização|permesso|consenso"
    r"|approvazione|autorizzazione)\b",
    r"(?:apruebo|aprovo|approvo|autorizo|autorizzo)\b|(?:aprobar|aprovar|approvare)$",
    # Dutch
    r"keurt? (?:je|jij|u) .*goed$",
    r"(?:kun|kunt|wil|wilt) (?:je|jij|u) .*(?:goedkeuren|toestaan|autoriseren)$",
    r"(?:heb ik|hebben we|hebben wij) (?:je|jouw|uw|de) (?:toestemming|goedkeuring|akkoord)\b",
    r"(?:ga je|gaat u) akkoord\b|goedkeuren$",
    # Russian, Ukrainian, Polish, Czech, Turkish, Swedish, Danish, Norwegian, Finnish, Greek
    r"(?:одобр(?:ить|яю|ите|яете)|утверд(?:ить|ите)|утверждаю|разреш(?:ить|аю|ите)|схвал(?:ити|юю)"
    r"|затвердити|дозволити)\b",
    r"(?:zatwierdź|zatwierdzam|zatwierdzić|zgadzam się|schválit|schvaluji|povolit"
    r"|onayla|onaylıyorum|onaylar mısınız|godkänn|godkänna|godkend"
    r"|godkende|godkjenn|godkjenne|hyväksy|hyväksyn"
    r"|εγκρίνω|έγκριση|εγκρίνετε)$",
    # Japanese, Chinese, Korean, Arabic, Hebrew, Hindi
    r"(?:承認(?:する|します|しますか)?|許可(?:する|します)|批准|批准吗"
    r"|同意|授权"
    r"|승인(?:하기|합니다|하시겠습니까)?"
    r"|موافق|موافقة|أوافق|مأذون|מאשר|מאשרת|אישור|לאשר|स्वीकृत करें|मंज़ूर)$",
    # requests of hardly more than one word, in each of the languages
    r"(?:can|could|will|would) you (?:please )?(?:ok|okay|confirm) (?:this|it|that)(?: for me)?$",
    rf"(?:please |kindly )?confirm(?: (?:this|it|that|{_ACTION_NOUNS}))?$",
    rf"(?:do you )?confirm (?:that )?(?:i|we) (?:should|may|can|shall|must) {_ACTION_VERBS}\b",
    r"(?:accept|do you (?:accept|agree)|agreed?|lgtm|ship it|do it|go|let's go|thumbs up)$",
    r"(?:accept|allow|approve|confirm|go|yes|ok|okay|agree) ?(?:/|\||or) ?(?:no|no[- ]go|not|deny"
    r"|decline|reject|refuse|disagree)\b",
    r"(?:permission|clearance|go[- ]ahead|green ?light)(?: to \w+.*| for this)?$",
    r"(?:are we|is (?:it|this|everything|all)|all|we're|we) good to \w+.*$",
    r"(?:are|would) you (?:be )?(?:ok|okay|fine|happy|comfortable) for (?:me|us) to\b",
    r"(?:einverstanden|freigabe|in ordnung|passt das(?: so)?(?: für (?:dich|sie|euch))?)$",
    r"(?:in ordnung|ok|okay),? wenn ich\b",
    r"(?:est-ce que )?(?:tu|vous) (?:approuve[sz]?|autorise[sz]?|valide[sz]?)\b",
    r"je (?:peux|dois) (?:continuer|procéder|rembourser|annuler|supprimer|envoyer|payer)\b",
    r"(?:on y va|d'accord(?: (?:pour|si) .*)?|c'est bon(?: pour (?:toi|vous))?)$",
    r"(?:estás|está|estáis|están) de acuerdo(?: (?:con|en) que .*)?$",
    r"(?:procedo|sigo adelante|lo hago|adelante|confirmas?|confirmáis|concordas?|prossigo|avanço)$",
    r"(?:(?:sei|siete|è) d'accordo|d'accordo|vado avanti|va bene(?: se .*)?|conferm[ia])$",
    r"(?:está bem|tudo bem|está bien|vale)(?: se| si)\b",
    r"(?:akkoord|mee eens|ben je het ermee eens|bent u het ermee eens)$",
    r"(?:вы |ты )?(?:одобря(?:ете|ешь)|разреша(?:ете|ешь)|подтверд(?:ите|ить|и|ишь)"
    r"|подтвержда(?:ете|ешь)|соглас(?:ны|ен|на)|дозволяєте|схвалюєте"
    r"|погоджуєтес[ья])(?: это| це)?$",
    r"(?:могу ли я|можно(?: ли)?(?: мне)?|чи можу я) (?:продолж|верну|удал|отправ|продовж|видал)",
    r"(?:czy )?(?:zatwierdzasz|potwierdzasz|zgadzasz się|zatwierdza pani?)(?: to)?$",
    r"(?:czy )?mogę (?:kontynuować|zwrócić|usunąć|wysłać|anulować)\b",
    r"(?:schválíte|schválíš|souhlasíte|souhlasíš|potvrdíte)(?: to)?$|mohu pokračovat\b",
    r"(?:onayl[ıi]yor|kabul ediyor|izin veriyor) mus\w+$|onaylar m[ıi]s[ıi]n$|devam edeyim mi$",
    r"(?:godkänner|godkender|godkjenner) (?:du|ni|i|dere)\b|(?:får|må|kan) jag fortsätta\b",
    r"(?:må|kan) jeg (?:fortsætte|fortsette)\b|(?:hyväksytkö|hyväksyttekö|saanko jatkaa)\b",
    r"(?:εγκρίνετε|εγκρίνεις|συμφωνείτε|συμφωνείς)(?: το)?$",
    r"(?:请|請|是否|您|你|可以|可否|能否|能)*(?:批准|同意|授权|授權|确认|確認|核准|继续|繼續|执行|執行)"
    r"(?:一下)?(?:吗|嗎|么)?$",
    r"(?:承認|許可|了承)(?:して(?:ください|もらえますか|いただけますか|くれますか))$",
    r"(?:進めて|実行して|続けて|返金して|削除して)も?(?:いい|よい|良い|よろしい)(?:ですか|でしょうか)?$",
    r"(?:승인|허가|동의|진행)(?:할까요|해도 될까요|해 ?주세요|해 ?주시겠습니까|하시나요|하십니까)$",
    r"(?:هل )?(?:توافق|توافقون|أتوافق|تسمح|تؤكد|تأذن)(?: على .*| لي .*)?$",
    r"(?:האם )?(?:אתה |את |אתם )?(?:מאשר|מאשרת|מאשרים|מסכים|מסכימה)(?: את זה| לי .*)?$",
    r"(?:क्या )?(?:आप )?(?:इसे |इसकी )?(?:स्वीकृति|मंज़ूरी|मंजूरी|अनुमति|सहमत|स्वीकार)",
)
_GERMAN_ACTION_VERBS = (
    r"(?:stornieren|erstatten|löschen|senden|schicken|überweisen|zahlen|ändern|ausführen|bestellen"
    r"|kündigen|fortfahren|weitermachen|tun|machen)"
)
# requests for permission, each with the word for "or", after which they offer a choice instead
_OR_WORD_BY_PERMISSION = {
    r"may (?:i|we)\b": "or",
    rf"(?:can|could|should|shall) (?:i|we) (?:now |please )*{_ACTION_VERBS}\b": "or",
    rf"(?:(?:do you|would you) (?:want|like)|want) me to {_ACTION_VERBS}\b": "or",
    r"(?:am i|are we) allowed to\b": "or",
    r"(?:darf ich|dürfen wir)\b": "oder",
    rf"(?:soll|kann|sollen|können) (?:ich|wir) .*{_GERMAN_ACTION_VERBS}$": "oder",
    r"(?:puis-je|pouvons-nous|dois-je|devons-nous|est-ce que je (?:peux|dois))\b": "ou",
    r"(?:puedo|podemos|debo)\b": "o",
    r"(?:posso|possiamo|devo)\b": "ou",
    r"(?:mag|zal|kan|moet) ik\b|(?:mogen|zullen|kunnen|moeten) (?:we|wij)\b": "of",
}
_INFORMATION_VERBS = (  # verbs of a mere question, as in "may I ask"
    r"(?:please |also |just |bitte |mal |te |vous |dich |sie |je |u )*(?:ask|know|have|get|see"
    r"|reach|meet|call|find|hear|expect|assume|help|fragen|wissen|haben|erfahren|savoir|avoir"
    r"|demander|connaître|saber|preguntar|perguntar|tener|ter|ver|sapere|chiedere|avere|vragen"
    r"|weten|hebben)\b"
)
_FINAL_INFORMATION_VERBS = (
    r".*\b(?:haben|wissen|erfahren|sehen|bekommen|erreichen|anrufen|hebben|weten|krijgen)$"
)
_REPLY_WITH = r"(?:say|reply|answer|type|respond|write)(?: with)? [\"'“]?"
_ANYWHERE_REQUESTS = (  # requests that a yes would grant, anywhere in a sentence
    r"confirm (?:that )?(?:i|we) (?:may|can|should|am allowed|are allowed)\b",
    rf"{_REPLY_WITH}(?:approved?|authori[sz]e|go ahead)\b",
    rf"{_REPLY_WITH}(?:yes|ok|okay|y)[\"'”]?,? (?:and|to|so|if)\b",
    rf"with your {_APPROVAL_NOUNS}\b",
    r"👍|\bthumbs[- ]up (?:or|and|if|to)\b|\byes ?/ ?no\b|\by ?/ ?n\b",
)
_LETTER_BY_DIGIT = str.maketrans("013457@$", "oleastas")  # the letter that each looks like
_DIGIT_IN_WORD_PATTERN = re.compile(r"(?<=[A-Za-z])[013457@$](?=[A-Za-z])")
_OUTER_MARKS_PATTERN = re.compile(r"^[\W_]+|[\W_]+$")  # decoration around a label
_SENTENCE_END_PATTERN = re.compile(r"(?<=[.?!;])\s+")


@cache
def _compile_approval_patterns() -> list[re.Pattern[str]]:
    """Return the patterns that match a request for approval; each match has its words in one group.

    Compiled on first use, because compiling them takes a hundredth of the bot's start.
    """
    lets = [
        rf"{_SENTENCE_START}({may})(?! {_INFORMATION_VERBS})(?!{_FINAL_INFORMATION_VERBS})"
        rf"(?!.* {either} (?!not?\b|nicht\b|non\b|pas\b|niet\b|nein\b))"
        for may, either in _OR_WORD_BY_PERMISSION.items()
    ]
    seeks = rf"{_SENTENCE_START}({'|'.join(_OPENING_REQUESTS)})|({'|'.join(_ANYWHERE_REQUESTS)})"
    return [re.compile(each) for each in (seeks, *lets)]


def find_approval_request_words(texts: Iterable[str]) -> str:
    """Return the first words in these texts that ask for an approval; "" if there are none."""
    for text in texts:
        letters = _DIGIT_IN_WORD_PATTERN.sub(
            lambda found: found[0].translate(_LETTER_BY_DIGIT), text
        )
        plain = (
            _OUTER_MARKS_PATTERN.sub("", each) for each in (text, normalise_letters(text), letters)
        )
        for written in dict.fromkeys((text, *plain)):
            if found := _find_approval_words_in_text(written):
                return found
    return ""


def _find_approval_words_in_text(text: str) -> str:
    """Return the words in one text, as it is written, that ask for an approval; "" if none."""
    for sentence in _SENTENCE_END_PATTERN.split(
        " ".join(text.split()).casefold().replace("’", "'")
    ):
        plain = sentence.strip(" .?!;)\"'”“»")
        for pattern in _compile_approval_patterns():
            if found := pattern.search(plain):
                return str(found[found.lastindex or 0])
    return ""
