"""The checks of what it takes to sign with passkeys, where a rule of the policy asks for that."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta

from cryptography.x509 import load_pem_x509_certificates
from sqlalchemy.exc import SQLAlchemyError

from bot.approvals.signatures import SigningLinks, list_people_who_can_sign
from bot.checks import check
from bot.checks.slack import Workspace
from bot.config.settings import Settings
from bot.policy.authority import Authority, LookupFailedError
from bot.policy.evaluation import Policy
from bot.policy.gates import Ask
from storage.passkeys import list_passkeys_of_team
from storage.record import Store

ABOUT = "passkeys"
MOST_NAMES = 10


def check_signing_setup(settings: Settings, policy: Policy) -> Iterator[check.CheckResult]:
    """Yield checks of the page on which people sign, and of what the policy says of passkeys.

    Nobody is looked up; nothing is said where no rule asks for signatures.
    """
    if not any(ask.wants_signature for ask in policy.asks()):
        return
    links, terms = SigningLinks(b"", settings.url), policy.passkeys
    if problem := links.describe_problem():
        remedy = "Until then nothing that has to be signed can be approved"
        yield check.build_failure_result(ABOUT, problem, remedy)
    elif links.address:
        yield check.build_ok_result(ABOUT, f"people sign at {links.address.url}")
    if settings.http is None and not settings.slack_signing_secret.get_secret_value():
        text = "nothing serves the page on which people sign: COUNTERSIGN_HTTP is not set"
        remedy = "Set it, and have COUNTERSIGN_URL lead there"
        yield check.build_failure_result(ABOUT, text, remedy)
    if terms.enrol == "countersigned" and not policy.list_signers().names:
        text = "nobody could approve a new passkey: no rule that asks for signatures names people"
        remedy = 'Name people or groups in one, or say enrol = "self" under [passkeys]'
        yield check.build_failure_result(ABOUT, text, remedy)
    if terms.roots and not _can_read_certificates(terms.roots):
        text = "the certificates in roots cannot be read, so no passkey can be added"
        yield check.build_failure_result(ABOUT, text, "Correct roots under [passkeys]")


def _can_read_certificates(text: str) -> bool:
    try:
        return bool(load_pem_x509_certificates(text.encode()))
    except ValueError:
        return False


def check_signers(
    policy: Policy, workspace: Workspace, store: Store, now: datetime
) -> Iterator[check.CheckResult]:
    """Yield a warning for each rule that takes more signatures than its approvers can give.

    And one for passkeys of other models than the policy takes. Looks people up.
    """
    gates, terms = [each for each in policy.asks() if each.wants_signature], policy.passkeys
    authority = Authority(workspace.directory, workspace.team)
    if not gates:
        return
    try:
        with store.read() as tx:
            rows = list_passkeys_of_team(tx, authority.team)
            able = list_people_who_can_sign(tx, authority.team, terms, now)
    except SQLAlchemyError:  # the check of the database says so
        return
    odd = {e.person for e in rows if not terms.allows_model(e.aaguid, attested=e.attested)}
    if odd:
        people = _format_names(authority, odd)
        text = f"the policy takes other models than some passkeys of {people} are of"
        yield check.build_warning_result(ABOUT, text, "Those count for nothing: add others")
    for gate in gates:
        try:
            yield from _check_gate(gate, authority, able)
        except LookupFailedError:  # said of whom it concerns
            continue


def _check_gate(
    ask: Ask, authority: Authority, able: frozenset[str]
) -> Iterator[check.CheckResult]:
    about = " with ".join([f"rule {ask.rule!r}", *(repr(each) for each in ask.added)])
    for index, stage in enumerate(ask.stages):
        who = ask.get_stage_approvers(index, timedelta(seconds=ask.deadline))
        if not stage.signature or who.channel or who.requester or who.owners:
            continue  # or it hangs on where it is asked, by whom, and with which arguments
        named = authority.list_able_approvers(ask, who, requester="", channel="")
        signers = len(named & able)
        if signers >= stage.quorum:
            continue
        can = f"only {signers} of them can sign" if signers else "nobody of them can sign"
        people = _format_names(authority, named - able)
        text = f"takes {stage.quorum} signed with a passkey, and {can}"
        remedy = f"Have them add one on the Home tab: {people}"
        yield check.build_warning_result(about, text, remedy)


def _format_names(authority: Authority, people: Collection[str]) -> str:
    """Return the names of the first of these people, looked up."""
    first = sorted(people)[:MOST_NAMES]
    known = authority.directory.find_people(first)
    names = [known[each].name if each in known else each for each in first]
    return ", ".join([*names, *(["others"] if len(people) > len(first) else [])])
