"""What the environment says beside the settings: proxies, plain http, unknown names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, MutableMapping
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import SplitResult, urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined] # public, not in the stubs

from dotenv import dotenv_values

PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
_PREFIX = "COUNTERSIGN_"
_OF_PROGRAMS = frozenset({"COUNTERSIGN_URL", "COUNTERSIGN_API_KEY"})  # that ask by HTTP
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def split(url: str) -> SplitResult:
    """The parts of `url`; all empty where it is no address at all."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def exempt(url: str, environ: Mapping[str, str]) -> bool:
    """Whether `url` is not to be reached through a proxy."""
    host = split(url).hostname or ""
    no_proxy = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    return host in _LOOPBACK or bool(proxy_bypass_environment(host, {"no": no_proxy}))


class DotenvError(Exception):
    """The .env file cannot be read; says why."""


def variables(environ: Mapping[str, str], dotenv_path: Path | str | None) -> dict[str, str]:
    """What is set in `environ`, and under it in the .env file; blank means unset.

    Raises DotenvError.
    """
    try:
        from_file = dotenv_values(dotenv_path, interpolate=False) if dotenv_path else {}
    except UnicodeDecodeError:
        raise DotenvError(f"{dotenv_path} is not UTF-8 text; correct or remove it") from None
    except OSError as error:
        why = f"{dotenv_path} cannot be read ({error.strerror})"
        raise DotenvError(f"{why}; let Countersign read it, or remove it") from None
    both = (*from_file.items(), *environ.items())
    return {name: value.strip() for name, value in both if value and value.strip()}


def oddities(given: Mapping[str, str], known: Collection[str]) -> Iterator[str]:
    """What is odd in the variables that were given, but stops nothing.

    `known`: the names of all settings.
    """
    if "SLACK_CLIENT_ID" in given or "SLACK_CLIENT_SECRET" in given:
        yield "SLACK_CLIENT_ID and SLACK_CLIENT_SECRET are ignored: one workspace needs no OAuth"
    slack = given.get("SLACK_API_URL", "https://slack.com/api/")
    if any(each in given for each in PROXIES):
        how = "goes past" if exempt(slack, given) else "goes through"
        yield f"a proxy is set: Slack {how} it, as SLACK_API_URL and NO_PROXY say"
    for name in ("SLACK_API_URL", "OPENAI_BASE_URL"):
        parts = split(given.get(name, ""))
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            yield f"{name} is http: tokens and messages travel unencrypted"
    if "OPENAI_BASE_URL" in given and "OPENAI_API_KEY" not in given:
        yield "OPENAI_BASE_URL means nothing without OPENAI_API_KEY: give it any word"
    yield from misspelt(given, known)


def misspelt(given: Mapping[str, str], known: Collection[str]) -> Iterator[str]:
    """What begins as our own settings do and is none, or is all but the name of one not given."""
    for name in sorted(given.keys() - _OF_PROGRAMS - set(known)):
        own = name.startswith(_PREFIX)
        close = get_close_matches(name, known, 1, 0.6 if own else 0.88)
        if own or (close and close[0] not in given):
            yield f"{name} is no setting" + (f"; is {close[0]} meant?" if close else "")


def prepare_environment(environ: MutableMapping[str, str], slack_api_url: str) -> None:
    """Take out of `environ` what the Slack libraries would misread; to be called before Bolt is.

    SLACK_CLIENT_ID and _SECRET would turn Bolt's OAuth on and our token off. slack_sdk sends
    everything through HTTP(S)_PROXY and knows no NO_PROXY: where Slack's address is exempt or on
    this machine, they make way.
    """
    for name in ("SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET"):
        environ.pop(name, None)
    if exempt(slack_api_url, environ):
        proxies = [environ.pop(name, "").strip() for name in PROXIES]
        # the model's client honours both of these, slack_sdk neither
        for proxy in filter(None, proxies):
            environ.setdefault("ALL_PROXY", proxy)
        spared = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
        environ["no_proxy"] = ",".join(filter(None, (spared, "127.0.0.1", "localhost")))
