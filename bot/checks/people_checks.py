"""The checks of a workspace: of the people and channels that the policy names, and the operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from cryptography.x509 import load_pem_x509_certificates
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from sqlalchemy.exc import SQLAlchemyError

from bot.approvals.signatures import SigningLinks, list_people_who_can_sign
from bot.checks import check
from bot.checks.slack import SignInAnswer, Workspace, check_card_channels, check_token_and_clock
from bot.config.connection_settings import get_page_host
from bot.config.settings import Settings
from bot.policy.approver_lists import MANAGER_OF_REQUESTER
from bot.policy.authority import Authority, LookupFailedError, Person, is_colleague
from bot.policy.evaluation import Policy
from bot.policy.gates import Approvers, Ask, load_gate
from bot.policy.rules import Rule, collect_needed_lookups
from bot.slack.directory import SlackDirectory
from countersign.durations import format_count
from storage import call_history
from storage.backend import MAX_SOCKET_PATH_BYTES, socket_path
from storage.passkeys import list_passkeys
from storage.record import Store

MAX_DIRECT_MESSAGE_RECIPIENTS = 50
LOOKBACK_DAYS = 30
RequestCounts = dict[str, Counter[str]]  # rule -> how often each person asked


def check_workspace(
    found: SignInAnswer, settings: Settings, policy: Policy, store: Store, now: datetime
) -> Iterator[check.CheckResult]:
    """Yield all checks that ask Slack: of token, clock, channels, people, operator and signers."""
    workspace = found.workspace
    yield from check_token_and_clock(found, settings, policy)
    yield from check_card_channels(policy, workspace)
    yield from check_names_used_in_policy(policy, workspace, count_requests_by_rule(store, now))
    yield from check_operator(settings, policy, workspace)
    yield from check_signers(settings, policy, workspace, store, now)


def count_requests_by_rule(store: Store, now: datetime) -> RequestCounts:
    """Read by rule how many calls each person asked for in 30 days; {} if `store` fails."""
    found: RequestCounts = {}
    try:
        with store.read() as tx:
            for gate, requester, count in call_history.count_calls_by_gate_since(
                tx, now - timedelta(days=LOOKBACK_DAYS)
            ):
                found.setdefault(load_gate(gate).rule, Counter())[requester] += count
    except (SQLAlchemyError, ValueError):
        return {}
    return found


def check_names_used_in_policy(
    policy: Policy, workspace: Workspace, usual: RequestCounts
) -> Iterator[check.CheckResult]:
    """Yield checks of the people, groups and channels that the policy names, then of each rule.

    `usual`: who asked how often under which rule.
    """
    client, directory = workspace.client, workspace.directory
    asks, people = policy.asks(), _ApproverChecks(directory, workspace.team)
    named = [who for ask in asks for who in _list_gate_approvers(ask)]
    named += [each.break_glass for each in asks if each.break_glass]
    named += _list_people_outside_rules(policy)
    users = dict.fromkeys(user for each in named for user in each.users)
    for user in users:
        yield from _run_lookup_check(f"approver {user}", people.check_approver, user)
    handles = dict.fromkeys(handle for each in named for handle in each.groups)
    for handle in handles:
        yield from _run_lookup_check(f"approvers @{handle}", people.check_approver_group, handle)
    needs = collect_needed_lookups(policy.rules)
    for handle in sorted(needs.groups - set(handles)):
        yield from _run_lookup_check(f"group @{handle}", _check_condition_group, handle, directory)
    of_rules = {name for rule in policy.rules for name in rule.channels}
    asking = {each for rule in policy.rules for each in rule.requesters if each[:1] != "@"}
    channels = needs.channels | of_rules | {*policy.shared_channels}
    has_handle = partial(_is_handle_unique, directory)
    for kind, names, find, finding in (
        ("channel ", channels, directory.find_channel_id, UNKNOWN_CHANNEL_FINDING),
        ("person @", needs.people, has_handle, UNKNOWN_HANDLE_FINDING),
        ("requester ", asking - users.keys(), directory.find_person, UNKNOWN_PERSON_FINDING),
    ):
        for name in sorted(names):
            yield from _run_lookup_check(f"{kind}{name}", _check_is_known, find, name, *finding)
    if field := policy.owner_functions.get(MANAGER_OF_REQUESTER):
        recent_requesters = sorted({user for counted in usual.values() for user in counted})[:5]
        yield from _run_lookup_check(
            "manager", _check_managers, field, recent_requesters, directory
        )
    rules = {rule.name: rule for rule in policy.rules}
    for ask in asks:
        yield from people.check_rule_approvers(ask, usual.get(ask.rule, Counter()))
        if any(each.channel for each in _list_gate_approvers(ask)):
            yield from _check_public_channel_approvers(ask, rules.get(ask.rule), client, directory)


def _run_lookup_check(
    subject: str, make: Callable[..., Iterator[check.CheckResult]], *of: Any
) -> Iterator[check.CheckResult]:
    """Yield the results of a check of `subject`, or a failure if Slack cannot be asked."""
    about = check.CheckSubject(subject)
    try:
        yield from make(about, *of)
    except LookupFailedError as error:
        yield about.fail(f"Slack cannot be asked ({error})", check.FIX_ERRORS_ABOVE_REMEDY)


def _list_gate_approvers(ask: Ask) -> Iterator[Approvers]:
    """Yield the approvers of a gate and of its escalation steps."""
    yield ask.approvers
    yield from (step.approvers for step in ask.escalation)


def _list_people_outside_rules(policy: Policy) -> Iterator[Approvers]:
    """Yield whom the policy names outside rules: to loosen modes, read records, use templates."""
    found = (policy.loosen, policy.readers, *(each.who for each in policy.templates))
    yield from (each for each in found if each is not None)


UNKNOWN_CHANNEL_FINDING = (
    "does not exist, or is private without the bot in it, so conditions about it are never true",
    "Invite the bot, or correct the name in the policy",
)
UNKNOWN_HANDLE_FINDING = (
    "nobody has that handle, so the rules that name it cannot be evaluated",
    "Correct the handle in the policy",
)
UNKNOWN_PERSON_FINDING = (
    "there is no such person, so the rules that name them apply to nobody",
    "Correct the id in the policy",
)


def _check_is_known(
    subject: check.CheckSubject, find: Callable[[str], object], name: str, text: str, remedy: str
) -> Iterator[check.CheckResult]:
    """Yield a failure with this text and remedy if `find` finds nothing by the name."""
    if not find(name):
        yield subject.fail(text, remedy)


def _is_handle_unique(directory: SlackDirectory, handle: str) -> bool:
    """Return whether exactly one person has that Slack handle; display names do not count."""
    return list(directory.find_people_by_name(handle).values()).count(handle) == 1


def _check_managers(
    subject: check.CheckSubject, field: str, known: list[str], directory: SlackDirectory
) -> Iterator[check.CheckResult]:
    """Yield a check whether a Slack profile field names the managers of some recent requesters."""
    having = sum(bool(directory.find_owners(MANAGER_OF_REQUESTER, field, user)) for user in known)
    if known and not having:
        text = f"none of {len(known)} recent requesters has a person in the profile field {field!r}"
        yield subject.fail(text, "Correct the field, or fill in profiles")
    else:
        yield subject.confirm(f"{having} of {len(known)} recent requesters have one")


def _check_condition_group(
    subject: check.CheckSubject, handle: str, directory: SlackDirectory
) -> Iterator[check.CheckResult]:
    """Yield a check that a user group, named in conditions only, exists and has members."""
    group = directory.find_group(handle)
    if group is None:
        text = "there is no such user group, so the rules that name it cannot be evaluated"
        yield subject.fail(text, "Correct the handle in the policy")
    elif not group.members:
        yield subject.warn("is empty", "Add people to it, or remove it from the policy")
    else:
        yield subject.confirm(f"{len(group.members)} members")


def _check_public_channel_approvers(
    ask: Ask, rule: Rule | None, client: WebClient, directory: SlackDirectory
) -> Iterator[check.CheckResult]:
    """Yield a warning if people can make themselves approvers by joining a public channel."""
    where = "the channel where it is asked may decide, and anybody can join a public channel"
    if rule and rule.channels:
        public = [name for name in rule.channels if _is_public_channel(name, client, directory)]
        if not public:
            return
        where = f"{', '.join(public)} may decide, and anybody can join: it is a public channel"
    remedy = "Name people or a group, or limit the rule to private channels"
    yield check.build_rule_subject(ask.rule).warn(f"the members of {where}", remedy)


def _is_public_channel(name: str, client: WebClient, directory: SlackDirectory) -> bool:
    """Return whether the channel is known to be a public one."""
    try:
        found = directory.find_channel_id(name)
        channel = (
            client.conversations_info(channel=found)["channel"] if found else {"is_private": True}
        )
    except (LookupFailedError, SlackApiError):
        return False
    return not (channel.get("is_private") or channel.get("is_im") or channel.get("is_mpim"))


class _ApproverChecks:
    """The checks of the people who may approve, with the look-ups in Slack that they need."""

    def __init__(self, directory: SlackDirectory, team: str) -> None:
        self._directory = directory
        self._team = team
        self._authority = Authority(directory, team)

    def check_approver(self, subject: check.CheckSubject, user: str) -> Iterator[check.CheckResult]:
        """Yield the check of one approver by Slack user id."""
        person = self._directory.find_person(user)
        if person is None or not is_colleague(person, self._team):
            why = describe_why_cannot_decide(person, self._team)
            yield subject.fail(why, "Name somebody else in the policy")
        else:
            yield subject.confirm(f"{person.name} may decide")

    def check_approver_group(
        self, subject: check.CheckSubject, handle: str
    ) -> Iterator[check.CheckResult]:
        """Yield the check of one user group by handle."""
        group = self._directory.find_group(handle)
        members = group.members if group else frozenset[str]()
        able = self._authority.list_first_colleagues(members, len(members))
        if group is None:
            text = "there is no such user group"
            yield subject.fail(text, "Correct the handle in the policy")
        elif not able:
            text = "none of its members may decide" if members else "is empty"
            remedy = "Add active, full members of this workspace to it"
            yield subject.fail(text, remedy)
        else:
            text = f"{len(able)} of {len(members)} members may decide"
            yield subject.confirm(text)

    def check_rule_approvers(self, ask: Ask, asked: Counter[str]) -> Iterator[check.CheckResult]:
        """Yield checks of all approvers of a rule together: whether they are too few or too many.

        `asked`: how often each person asked under it.
        """
        about = check.build_rule_subject(ask.rule, ask.added)
        if any(e.channel or e.requester or e.owners for e in _list_gate_approvers(ask)):
            return  # depends on channel, requester and arguments
        try:
            notified = ask.approvers.notified
            meant = self._authority.list_named_people(notified, requester="", channel="")
            missing = self._authority.count_missing_approvers(ask, requester="", channel="")
            able = {
                each
                for who in _list_gate_approvers(ask)
                for each in self._list_able_approvers(ask, who)
            }
            alone = self._list_able_approvers(ask, ask.break_glass or Approvers())
            stuck = (
                [each for each in sorted(able) if self._is_short_of_approvers_without(ask, each)]
                if missing <= 0
                else []
            )
        except LookupFailedError:
            return  # reported by the check of the person or group
        if missing > 0:
            steps = format_count(len(ask.stages), "step")
            can = (
                f"only {ask.required_approvers - missing}"
                if missing < ask.required_approvers
                else "nobody"
            )
            text = f"needs {ask.required_approvers} to approve in {steps}, but {can} can"
            remedy = "Nothing under this rule can be approved: name more people, or ask for fewer"
            yield about.fail(text, remedy)
        if stuck:
            text = _describe_unapprovable_requesters(stuck, able, asked)
            yield about.warn(text, "Name another approver")
        if notified is not ask.approvers and not self._list_able_approvers(ask, notified):
            text = "no approver who is notified can decide, so the silent ones are notified"
            yield about.warn(text, "Name somebody else in approvers")
        if able and able <= alone and ask.break_glass != ask.approvers:  # else warned about already
            yield about.warn(*check.NO_REVIEWER_FINDING)
        if ask.post_to == "approvers" and len(meant) > MAX_DIRECT_MESSAGE_RECIPIENTS:
            text = (
                f"more than {MAX_DIRECT_MESSAGE_RECIPIENTS} people would each get a direct message"
            )
            yield about.warn(text, 'Set post_to to a channel, or to "thread"')

    def _list_able_approvers(self, ask: Ask, who: Approvers) -> frozenset[str]:
        return self._authority.list_able_approvers(ask, who, requester="", channel="")

    def _is_short_of_approvers_without(self, ask: Ask, person: str) -> bool:
        """Return whether too few people are left to approve what this person asks for."""
        return self._authority.count_missing_approvers(ask, requester=person, channel="") > 0


def _describe_unapprovable_requesters(
    stuck: list[str], able: Iterable[str], asked: Counter[str]
) -> str:
    """Return a text on people whose own requests nobody could approve, and how often they asked."""
    often = [each for each in stuck if asked[each] * 2 > asked.total()]
    if often:
        share = f"{asked[often[0]]} of the {asked.total()} calls under it in {LOOKBACK_DAYS} days"
        return (
            f"{often[0]} asked for {share}, and without {often[0]} too few are left to approve them"
        )
    if len(set(able)) == 1:
        return f"only {stuck[0]} may decide, but nobody can decide what {stuck[0]} asks for"
    ask = "ask" if len(stuck) > 1 else "asks"
    return f"too few others can approve what {', '.join(stuck)} {ask} for"


def describe_why_cannot_decide(person: Person | None, team: str) -> str:
    """Return the reason why a person cannot decide; `person` is None for an unknown one."""
    if person is None:
        return "there is no such person"
    if person.deleted:
        return f"{person.name} is deactivated"
    if person.is_bot:
        return f"{person.name} is a bot"
    return (
        f"{person.name} is a guest"
        if person.team == team or team in person.teams
        else f"{person.name} belongs to another workspace"
    )


OPERATOR_SUBJECT = check.CheckSubject("operator")
OPERATOR_REMEDY = "Set COUNTERSIGN_OPERATOR to an approver's Slack user id, or unset it"


def check_operator(
    settings: Settings, policy: Policy, workspace: Workspace
) -> Iterator[check.CheckResult]:
    """Yield the checks of the operator whom the settings name; none if they name nobody."""
    if settings.operator is None:
        return
    yield from _run_lookup_check(
        OPERATOR_SUBJECT.name, _check_operator_person, settings.operator, policy, workspace
    )
    path = socket_path(settings.database_path).absolute()
    if len(str(path).encode()) > MAX_SOCKET_PATH_BYTES:
        text = f"{path} is too long for a socket, so no command reaches the bot"
        yield OPERATOR_SUBJECT.fail(text, "Keep the database under a shorter path")


def _check_operator_person(
    subject: check.CheckSubject, operator: str, policy: Policy, workspace: Workspace
) -> Iterator[check.CheckResult]:
    directory, team = workspace.directory, workspace.team
    person = directory.find_person(operator)
    if person is None or not is_colleague(person, team):
        why = describe_why_cannot_decide(person, team)
        yield subject.fail(why, OPERATOR_REMEDY)
    elif _may_operator_decide(operator, policy, Authority(directory, team)):
        yield subject.confirm(f"{person.name} also decides at the terminal")
    else:
        text = f"{person.name} is not an approver under any rule"
        yield subject.warn(text, OPERATOR_REMEDY)


def _may_operator_decide(operator: str, policy: Policy, authority: Authority) -> bool:
    """Return whether some rule lets the operator decide.

    A rule that asks a channel's members, the requester or an owner whom a function finds counts:
    who that is depends on the call.
    """
    able = authority.list_able_approvers
    return any(
        bool(who.channel or who.requester or who.owners)
        or operator in able(ask, who, requester="", channel="")
        for ask in policy.asks()
        for who in _list_gate_approvers(ask)
    )


PASSKEYS_SUBJECT = check.CheckSubject("passkeys")
MAX_LISTED_NAMES = 10


def check_signing_setup(settings: Settings, policy: Policy) -> Iterator[check.CheckResult]:
    """Yield checks of the page on which people sign, and of what the policy says of passkeys.

    Nobody is looked up; nothing is said where no rule asks for signatures.
    """
    if not any(ask.wants_signature for ask in policy.asks()):
        return
    links, terms = SigningLinks(b"", settings.url), policy.passkeys
    if problem := links.describe_problem():
        remedy = "Until then nothing that has to be signed can be approved"
        yield PASSKEYS_SUBJECT.fail(problem, remedy)
    elif links.address:
        yield PASSKEYS_SUBJECT.confirm(f"people sign at {links.address.url}")
    if settings.http is None and not settings.slack_signing_secret.get_secret_value():
        text = "nothing serves the page on which people sign: COUNTERSIGN_HTTP is not set"
        remedy = "Set it, and point COUNTERSIGN_URL at it"
        yield PASSKEYS_SUBJECT.fail(text, remedy)
    if terms.enrol == "countersigned" and not policy.list_signers().names:
        text = "nobody could approve a new passkey: no rule that asks for signatures names people"
        remedy = 'Name people or groups in one, or set enrol = "self" under [passkeys]'
        yield PASSKEYS_SUBJECT.fail(text, remedy)
    if terms.roots and not _can_read_certificates(terms.roots):
        text = "the certificates in roots cannot be read, so no passkey can be added"
        yield PASSKEYS_SUBJECT.fail(text, "Correct roots under [passkeys]")


def _can_read_certificates(text: str) -> bool:
    try:
        return bool(load_pem_x509_certificates(text.encode()))
    except ValueError:
        return False


def check_signers(
    settings: Settings, policy: Policy, workspace: Workspace, store: Store, now: datetime
) -> Iterator[check.CheckResult]:
    """Yield a warning for each rule that takes more signatures than its approvers can give.

    Also one for passkeys of models that the policy does not accept, or made at another address.
    Looks people up.
    """
    gates, terms = [each for each in policy.asks() if each.wants_signature], policy.passkeys
    authority = Authority(workspace.directory, workspace.team)
    host = get_page_host(settings.url)
    if not (gates and host):  # a missing address is reported by the check of the setup
        return
    try:
        with store.read() as tx:
            rows = list_passkeys(tx, authority.team)
            able = list_people_who_can_sign(tx, authority.team, terms, now, host)
    except SQLAlchemyError:  # the check of the database reports it; before a start there is none
        return
    odd = {e.person for e in rows if not terms.allows_model(e.aaguid, attested=e.attested)}
    if odd:
        people = _format_names(authority, odd)
        text = f"the policy does not accept the models of some passkeys of {people}"
        yield PASSKEYS_SUBJECT.warn(text, "Those do not count: add others")
    moved = {e.person for e in rows if e.rp_id != host}
    if moved:
        text = f"some passkeys of {_format_names(authority, moved)} were made at another address"
        yield PASSKEYS_SUBJECT.warn(text, "Those do not count at COUNTERSIGN_URL: add others")
    for gate in gates:
        try:
            yield from _check_gate(gate, authority, able)
        except LookupFailedError:  # reported by the check of the person or group
            continue


def _check_gate(
    ask: Ask, authority: Authority, able: frozenset[str]
) -> Iterator[check.CheckResult]:
    about = check.build_rule_subject(ask.rule, ask.added)
    for index, stage in enumerate(ask.stages):
        who = ask.get_stage_approvers(index, timedelta(seconds=ask.deadline))
        if not stage.signature or who.channel or who.requester or who.owners:
            continue  # not signed, or it depends on channel, requester and arguments
        named = authority.list_able_approvers(ask, who, requester="", channel="")
        signers = len(named & able)
        if signers >= stage.quorum:
            continue
        can = f"only {signers} of them can sign" if signers else "none of them can sign"
        people = _format_names(authority, named - able)
        text = f"needs {stage.quorum} signed with a passkey, but {can}"
        remedy = f"Have them add one on the Home tab: {people}"
        yield about.warn(text, remedy)


def _format_names(authority: Authority, people: Collection[str]) -> str:
    """Return the names, looked up in Slack, of the first ten people, separated by commas."""
    first = sorted(people)[:MAX_LISTED_NAMES]
    known = authority.directory.find_people(first)
    names = [known[each].name if each in known else each for each in first]
    return ", ".join([*names, *(["others"] if len(people) > len(first) else [])])
