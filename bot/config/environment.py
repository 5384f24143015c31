"""Reads environment variables, also from the .env file, and finds odd or misspelt ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, MutableMapping
from difflib import get_close_matches
from functools import cache
from io import StringIO
from pathlib import Path
from urllib.parse import SplitResult, urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined] # public, not in the stubs

from dotenv.parser import parse_stream

PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
_VARIABLE_PREFIX = "COUNTERSIGN_"
_CLIENT_VARIABLES = frozenset({"COUNTERSIGN_API_KEY"})  # for programs that ask over HTTP
_LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")


def split_url(url: str) -> SplitResult:
    """Return the parts of `url`; all are empty if it is not a valid URL."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def require_plain_url(url: str) -> str:
    parts = split_url(url)
    odd = parts.query or parts.fragment or parts.username or parts.password
    if parts.scheme not in ("https", "http") or not parts.hostname or odd:
        raise ValueError("it is not a plain http(s) address")
    return url


def is_exempt_from_proxy(url: str, environ: Mapping[str, str]) -> bool:
    """Return whether `url` is to be reached without a proxy."""
    host = split_url(url).hostname or ""
    no_proxy = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    return host in _LOOPBACK_HOSTS or bool(proxy_bypass_environment(host, {"no": no_proxy}))


class DotenvError(Exception):
    """Raised if the .env file cannot be read; the text says why."""


def read_environment_variables(
    environ: Mapping[str, str], dotenv_path: Path | str | None
) -> dict[str, str]:
    """Return the variables in `environ` and the .env file; `environ` wins, blank means unset.

    Raises DotenvError.
    """
    from_file = read_dotenv_file(Path(dotenv_path)) if dotenv_path else {}
    both = (*from_file.items(), *environ.items())
    return {name: value.strip() for name, value in both if value and value.strip()}


def read_dotenv_file(path: Path) -> dict[str, str]:
    """Return the variables that a .env file sets, taken literally; none if there is no file.

    Raises DotenvError, which reveals nothing of the file's content: it may be secret.
    """
    try:
        bindings = [*parse_stream(StringIO(path.read_text("utf-8")))]
    except FileNotFoundError:
        return {}
    except IsADirectoryError:
        raise DotenvError(f"{path} is a folder; put a file in its place, or remove it") from None
    except UnicodeDecodeError:
        raise DotenvError(f"{path} is not UTF-8 text; correct or remove it") from None
    except OSError as error:
        why = f"{path} cannot be read ({error.strerror})"
        raise DotenvError(f"{why}; let Countersign read it, or remove it") from None
    for each in bindings:
        if each.error:
            text = each.original.string  # begins with the blank lines before the binding
            line = each.original.line + text[: -len(text.lstrip())].count("\n")
            raise DotenvError(f"{path}:{line}: write it as NAME=value, or remove it")
    return {each.key: each.value or "" for each in bindings if each.key}


def describe_odd_environment_variables(
    environ: Mapping[str, str], known: Collection[str]
) -> Iterator[str]:
    """Yield sentences about odd but harmless variables; `known`: the names of all settings."""
    if "SLACK_CLIENT_ID" in environ or "SLACK_CLIENT_SECRET" in environ:
        yield (
            "SLACK_CLIENT_ID and SLACK_CLIENT_SECRET are ignored: COUNTERSIGN_CLIENT_ID and "
            "COUNTERSIGN_CLIENT_SECRET install the bot in many workspaces"
        )
    is_renewed = "COUNTERSIGN_WORKSPACE" in environ  # the workspace of an installation
    if environ.get("SLACK_BOT_TOKEN", "").startswith("xoxe.") and not is_renewed:
        yield (
            "SLACK_BOT_TOKEN expires after twelve hours, as token rotation is on for the app; then "
            "nothing is sent until there is another. Create the app again from manifest.yml, or "
            "set COUNTERSIGN_CLIENT_ID and COUNTERSIGN_CLIENT_SECRET: then tokens are renewed"
        )
    slack = environ.get("SLACK_API_URL", "https://slack.com/api/")
    if any(each in environ for each in PROXY_VARIABLES):
        how = "bypasses" if is_exempt_from_proxy(slack, environ) else "goes through"
        yield f"a proxy is set: traffic to Slack {how} it, because of SLACK_API_URL and NO_PROXY"
    for name in ("SLACK_API_URL", "OPENAI_BASE_URL"):
        parts = split_url(environ.get(name, ""))
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK_HOSTS:
            yield f"{name} is http: tokens and messages travel unencrypted"
    if "OPENAI_BASE_URL" in environ and "OPENAI_API_KEY" not in environ:
        yield "OPENAI_BASE_URL has no effect without OPENAI_API_KEY: set that to any word"
    yield from describe_misspelt_setting_names(environ, known)
    yield from describe_quoted_values(environ, known)


def describe_quoted_values(environ: Mapping[str, str], known: Collection[str]) -> Iterator[str]:
    """Yield sentences about settings in quotes, which `docker run --env-file` does not remove."""
    for name in known:
        value = environ.get(name, "")
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            yield f"the quotes around {name} are part of its value; Docker's --env-file keeps them"


def describe_misspelt_setting_names(
    environ: Mapping[str, str], known: Collection[str]
) -> Iterator[str]:
    """Yield sentences about variables that seem to be misspelt names of settings."""
    for name in sorted(environ.keys() - _CLIENT_VARIABLES - set(known)):
        own = name.startswith(_VARIABLE_PREFIX)
        close = _find_close_names(name, tuple(known), 0.6 if own else 0.88)
        if own or (close and close[0] not in environ):
            yield f"{name} is not a setting" + (f"; did you mean {close[0]}?" if close else "")


@cache  # takes milliseconds, and is repeated for every workspace
def _find_close_names(name: str, known: tuple[str, ...], cutoff: float) -> list[str]:
    return get_close_matches(name, known, 1, cutoff)


def remove_variables_slack_misreads(environ: MutableMapping[str, str], slack_api_url: str) -> None:
    """Remove from `environ` what the Slack libraries would misread; call this before using Bolt.

    SLACK_CLIENT_ID and _SECRET would turn Bolt's OAuth on and our token off. slack_sdk sends
    everything through HTTP(S)_PROXY and ignores NO_PROXY: if Slack's address is exempt or on this
    machine, those variables are replaced by ALL_PROXY. Its Socket Mode takes the host of a proxy
    only from a whole address, so one written as host:port becomes http://host:port.
    """
    for name in ("SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET"):
        environ.pop(name, None)
    for name in PROXY_VARIABLES:
        if (proxy := environ.get(name, "").strip()) and "://" not in proxy:
            environ[name] = f"http://{proxy}"
    if is_exempt_from_proxy(slack_api_url, environ):
        proxies = [environ.pop(name, "").strip() for name in PROXY_VARIABLES]
        # the model's client respects ALL_PROXY and no_proxy, slack_sdk ignores both
        for proxy in filter(None, proxies):
            environ.setdefault("ALL_PROXY", proxy)
        spared = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
        environ["no_proxy"] = ",".join(filter(None, (spared, "127.0.0.1", "localhost")))
