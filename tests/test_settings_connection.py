"""The settings of how Slack, browsers and the bot reach one another."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.config.connection_settings import Transport, parse_page_address
from bot.config.settings import Settings, SettingsError

SECRET = "s3cr3t"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The required variables."""
    policy = tmp_path / "policy.toml"
    policy.touch()
    return {
        "SLACK_BOT_TOKEN": f"xoxb-{SECRET}",
        "SLACK_APP_TOKEN": f"xapp-{SECRET}",
        "COUNTERSIGN_POLICY": str(policy),
    }


def test_each_transport_needs_its_own_secret_only(environ: dict[str, str]) -> None:
    """Socket Mode needs the app's token, HTTP the signing secret."""
    socket = Settings.load(environ)
    assert (socket.transport, socket.http) == (Transport.SOCKET, None)
    signing = {"SLACK_SIGNING_SECRET": SECRET * 4}
    over_http = {key: value for key, value in environ.items() if key != "SLACK_APP_TOKEN"} | signing
    served = Settings.load(over_http, transport=Transport.HTTP)
    assert served.slack_signing_secret.get_secret_value() == SECRET * 4
    assert served.slack_app_token.get_secret_value() == ""
    for each, way, missing in (
        (environ, Transport.HTTP, "SLACK_SIGNING_SECRET"),
        (over_http, Transport.SOCKET, "SLACK_APP_TOKEN"),
    ):
        with pytest.raises(SettingsError) as caught:
            Settings.load(each, transport=way)
        [problem] = caught.value.problems
        assert problem.startswith(f"{missing}: is missing. ")
    # a command that only looks goes by the secrets that are set
    assert Settings.load(over_http, transport=None).transport is Transport.HTTP
    assert Settings.load(environ | signing, transport=None).transport is Transport.SOCKET


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("[::1]:0", ("::1", 0)),
        ("bot.internal:65535", ("bot.internal", 65_535)),
    ],
)
def test_a_listening_address_is_host_and_port(
    environ: dict[str, str], written: str, address: object
) -> None:
    """A host with colons is in brackets."""
    assert Settings.load(environ | {"COUNTERSIGN_HTTP": written}).http == address


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SLACK_SIGNING_SECRET", SECRET),
        ("SLACK_SIGNING_SECRET", f"{SECRET} {SECRET} {SECRET}"),
        ("COUNTERSIGN_HTTP", "8080"),
        ("COUNTERSIGN_HTTP", "127.0.0.1:65536"),
        ("COUNTERSIGN_HTTP", "::1:8080"),
        ("COUNTERSIGN_HTTP", f"http://{SECRET}:8080"),
        ("COUNTERSIGN_HTTP", "127.0.0.1:８０８０"),
    ],
)
def test_a_wrong_address_or_signing_secret_is_refused(
    environ: dict[str, str], name: str, value: str
) -> None:
    """By the variable's name, and without the value."""
    with pytest.raises(SettingsError) as caught:
        Settings.load(environ | {name: value})
    [problem] = caught.value.problems
    assert problem.startswith(f"{name}: it is ")
    assert SECRET not in problem


@pytest.mark.parametrize(
    ("written", "url", "origin", "rp_id"),
    [
        (
            "https://a.example.com",
            "https://a.example.com",
            "https://a.example.com",
            "a.example.com",
        ),
        ("https://A.example.com:443/x/", "https://a.example.com/x", "https://a.example.com", None),
        ("https://a.example.com:8443", None, "https://a.example.com:8443", "a.example.com"),
        ("http://localhost:8080", "http://localhost:8080", "http://localhost:8080", "localhost"),
    ],
)
def test_a_page_address_gives_origin_and_passkey_host(
    written: str, url: str | None, origin: str, rp_id: str | None
) -> None:
    """The origin as browsers write it, and the host name that passkeys belong to."""
    found = parse_page_address(written)
    assert (found.origin, found.url) == (origin, url or origin)
    assert found.rp_id == (rp_id or "a.example.com")


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("http://a.example.com", "over https"),
        ("http://127.0.0.1:8080", "over https"),
        ("unix:/srv/bot/countersign.db.socket", "over https"),
        ("https://127.0.0.1", "for names"),
        ("https://[::1]:8443", "for names"),
        ("https://a_b.example.com", "for names"),
        ("https://ana@a.example.com", "only scheme"),
        ("https://a.example.com?x=1", "only scheme"),
        ("https://a.example.com:x", "not an address"),
        ("https://[::1", "not an address"),
    ],
)
def test_an_address_unfit_for_signing_does_not_stop_the_bot(
    environ: dict[str, str], written: str, why: str
) -> None:
    """Browsers would refuse it; as programs use the variable too, the bot starts all the same."""
    with pytest.raises(ValueError, match=why):
        parse_page_address(written)
    assert Settings.load(environ | {"COUNTERSIGN_URL": written}).url == written
