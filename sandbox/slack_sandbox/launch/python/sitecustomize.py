"""Read by every Python of an app that the sandbox starts, before it runs anything.

Points Slack's clients at the sandbox, ends the app where it would reach the real Slack, and refuses
connections to other machines. It runs in the app's Python: standard library only.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any

_CLIENTS = {
    "slack_sdk.web.base_client": "BaseClient",
    "slack_sdk.web.async_base_client": "AsyncBaseClient",
    "slack_sdk.web.legacy_base_client": "LegacyBaseClient",
}
_HERE = ("", "localhost", "0.0.0.0", "::", "::1")  # noqa: S104  they are compared, nothing is bound
_names: dict[str, str] = {}  # address -> the host name that was looked up for it
_told: set[str] = set()  # refused hosts that were reported already


def _say(text: str) -> None:
    os.write(2, f"local Slack: {text}\n".encode())


def _stop(why: str) -> None:
    _say(why)
    os._exit(1)


def _text(host: Any) -> str:
    return host.decode("ascii", "replace") if isinstance(host, bytes) else str(host or "")


def _is_here(host: str) -> bool:
    """Return whether a host is this machine, by name or by address."""
    plain = host.removeprefix("::ffff:")
    return host in _HERE or (plain.startswith("127.") and plain.replace(".", "").isdigit())


def _keep_from_slack(host: str) -> None:
    """End the app if this is a host of Slack's."""
    if any(f".{host.lower()}".rstrip(".").endswith(f".{each}") for each in _GUARD["slack"]):
        _stop(f"the app was ended as it was about to reach {host}; give it SLACK_API_URL")


def _check(host: str) -> None:
    """Return if the host may be reached; end the app for a host of Slack's, else raise."""
    _keep_from_slack(host)
    name = host.lower().rstrip(".")
    if _is_here(name) or name in _GUARD["allowed"]:
        return
    refused = f"refused a connection to {host}, which is not this machine (--allow {host} lets it)"
    if name not in _told:
        _told.add(name)
        _say(refused)
    raise ConnectionRefusedError(f"local Slack: {refused}")


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Handle an audit event of Python; an exception raised here prevents the operation."""
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        _keep_from_slack(_text(arguments[0]))
    elif event == "socket.connect":
        used, address = arguments
        if isinstance(address, tuple) and used.type != socket.SOCK_DGRAM:
            host = _text(address[0])
            if not _is_here(host):  # then the name that was looked up decides
                _check(_names.get(host, host))


def _remembering(look_up: Callable[..., Any]) -> Callable[..., Any]:
    """A look-up that remembers the name for which an address was found."""

    def getaddrinfo(host: Any, *more: Any, **named: Any) -> Any:
        found = look_up(host, *more, **named)
        if host:
            _names.update({str(each[4][0]): _text(host) for each in found})
        return found

    return getaddrinfo


class _Pointing:
    """An import finder that points the modules of Slack's clients at the sandbox once loaded."""

    @staticmethod
    def find_spec(name: str, path: Any = None, _target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name in _CLIENTS else None
        loader: Any = spec and spec.loader
        if loader is not None:
            run = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                _point(getattr(module, _CLIENTS[name], None))

            loader.exec_module = exec_module
        return spec


def _point(client: Any) -> None:
    """Make the sandbox the default address of a class of Slack clients."""
    defaults = getattr(getattr(client, "__init__", None), "__defaults__", None) or ()
    usual = getattr(client, "BASE_URL", None)
    if usual not in defaults:
        _stop("slack_sdk is not as it was, and cannot be pointed; the app was ended")
    pointed = tuple(_GUARD["api"] if each == usual else each for each in defaults)
    client.__init__.__defaults__ = pointed


def _hide_proxies() -> None:
    """Remove the proxy variables, which are there to stop programs that do not run this file."""
    for name in [each for each in os.environ if each.lower().endswith("_proxy")]:
        del os.environ[name]


def _run_the_hidden_one() -> None:
    """Run the `sitecustomize` that would have been read, had this not come first."""
    own = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec("sitecustomize", [e for e in sys.path if os.path.abspath(e) != own])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


try:
    _GUARD: dict[str, Any] = json.loads(os.environ["LOCAL_SLACK"])
    sys.addaudithook(_watch)
    socket.getaddrinfo = _remembering(socket.getaddrinfo)
    sys.meta_path.insert(0, _Pointing)
    _hide_proxies()
except BaseException as error:  # noqa: BLE001  Python would go on without this, and the app to Slack
    _stop(f"{error!r}; the app was ended")
_run_the_hidden_one()
