"""Signing in Chromium, with a virtual authenticator like that of a phone or laptop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.common.virtual_authenticator import (
    Credential,
    Protocol,
    Transport,
    VirtualAuthenticatorOptions,
)
from webauthn.helpers import base64url_to_bytes

from bot.cards import passkey_views
from sandbox.tests.page.axe import findings
from sandbox.tests.page.tab import Tab
from storage import calls
from storage.models import Delivery
from storage.states import CallStatus, DeliveryKind
from tests.authenticator import Authenticator
from tests.stories.harness import Harness
from tests.stories.signing import PEOPLE, add_passkey, passkeys_of
from tests.web import signing as steps

pytestmark = [pytest.mark.browser, pytest.mark.long]
BUTTON, SAID = "footer button", "[role=status]"
LOOKS = [("light", 390), ("dark", 390), ("light", 320), ("light", 1280), ("dark", 1280)]
# whether the first of two elements is wholly above the second
ABOVE = """const [upper, lower] = [...arguments].map((css) => document.querySelector(css));
return upper.getBoundingClientRect().bottom <= lower.getBoundingClientRect().top + 1;"""

# the screen height at which the footer covers the end of the card
BEHIND = """const card = document.querySelector(".card").getBoundingClientRect().bottom;
return Math.ceil(card + scrollY + document.querySelector("footer").offsetHeight / 2);"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """The whole product, with a policy that demands signatures; people add keys by themselves."""
    world = steps.build_signing_harness(tmp_path_factory.mktemp("signing"))
    yield world
    world.close()


@pytest.fixture
def tab(driver: Any) -> Iterator[Tab]:
    """A phone's tab, with an authenticator that verifies its user."""
    options = VirtualAuthenticatorOptions(
        protocol=Protocol.CTAP2,
        transport=Transport.INTERNAL,
        has_resident_key=True,
        has_user_verification=True,
        is_user_verified=True,
    )
    driver.add_virtual_authenticator(options)
    tab = Tab(driver)
    set_look(tab, "light", 390)
    read_browser_log(tab)
    yield tab
    driver.get("about:blank")
    driver.remove_virtual_authenticator()
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def set_look(tab: Tab, theme: str, width: int, height: int = 844) -> None:
    """Set theme and size: a phone's screen up to 600 pixels, a laptop's above."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    tab.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    theme_ = {"name": "prefers-color-scheme", "value": theme}
    tab.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme_]})


def wait_for_status(tab: Tab, text: str) -> str:
    """Return the page's status text once it has this text."""
    tab.wait(lambda: text in tab.text(SAID), text)
    return tab.text(SAID)


def give_passkey(world: Harness, tab: Tab) -> None:
    """Give this authenticator a passkey of Ana's that counts."""
    key = Authenticator(rp_id="localhost")
    add_passkey(world, "ana", key)
    form = serialization.Encoding.DER, serialization.PrivateFormat.PKCS8
    secret = key.key.private_bytes(*form, serialization.NoEncryption())
    name = base64url_to_bytes(key.credential_id)
    tab.driver.add_credential(
        Credential.create_resident_credential(name, key.rp_id, b"ana", secret, key.count)
    )


def read_browser_log(tab: Tab) -> list[Any]:
    """The browser's log since the last call."""
    return list(tab.driver.get_log("browser"))  # type: ignore[no-untyped-call]  # as the package has it


def get_last_call(world: Harness, thread: str) -> Any:
    """The last call of a thread."""
    return world.calls_in(thread)[-1]


def test_ana_adds_a_passkey_and_signs_with_it(world: Harness, tab: Tab) -> None:
    """Without one, Approve leads Ana to add one; then to the page where she signs."""
    thread = steps.ask_for(world)
    tab.driver.get(steps.press_approve(world, thread))
    assert tab.text("h1") == "Add a passkey for Ana Ruiz"
    tab.type("input", "Ana’s phone")
    tab.one("input").send_keys(Keys.ENTER)
    tab.gone(BUTTON)
    [*_, key] = passkeys_of(world, "ana")
    assert (key.name, key.rp_id) == ("Ana’s phone", "localhost")
    tab.driver.get(steps.press_approve(world, thread))
    assert tab.text("h1") == "Sign as Ana Ruiz"
    assert "Refund 40.00 EUR of order 1042" in tab.text(".card")
    assert "@Ben Okafor" in tab.text(".card")
    assert get_last_call(world, thread).status is CallStatus.PENDING
    tab.press(BUTTON)
    wait_for_status(tab, passkey_views.SIGNED_REPLY)
    assert tab.all(BUTTON) == []
    world.settle()
    call = get_last_call(world, thread)
    assert call.status is CallStatus.SUCCEEDED
    with world.app.core.store.read() as tx:
        [vote] = calls.list_votes_on_revision(tx, call.id, call.revision)
    assert (vote.person, vote.passkey_id) == (PEOPLE["ana"], key.id)
    assert read_browser_log(tab) == []
    tab.driver.refresh()
    assert passkey_views.SIGNED_REPLY in tab.text("h1")


def test_signing_can_be_tried_again_after_cancelling(world: Harness, tab: Tab) -> None:
    """The device does not verify her: nothing changes, and the link works again."""
    give_passkey(world, tab)
    thread = steps.ask_for(world, steps.NOTE)
    tab.driver.get(steps.press_approve(world, thread))
    tab.driver.set_user_verified(False)
    tab.press(BUTTON)
    wait_for_status(tab, "or has no passkey of yours")
    tab.has_focus("button")
    assert list_signature_deliveries(world, thread) == []
    tab.driver.set_user_verified(True)
    tab.focused().send_keys(Keys.ENTER)
    wait_for_status(tab, passkey_views.SIGNED_REPLY)
    assert len(list_signature_deliveries(world, thread)) == 1


def list_signature_deliveries(world: Harness, thread: str) -> list[Delivery]:
    """The signatures posted for the call of a thread."""
    found = world.all(Delivery, Delivery.kind == DeliveryKind.SIGNATURE)
    call = get_last_call(world, thread).id
    return [each for each in found if json.loads(each.body)["call"] == call]


def test_a_device_without_her_passkey_cannot_sign(world: Harness, tab: Tab) -> None:
    """The page says so, and nothing is posted."""
    give_passkey(world, tab)
    thread = steps.ask_for(world, steps.NOTE)
    tab.driver.remove_all_credentials()
    tab.driver.get(steps.press_approve(world, thread))
    tab.press(BUTTON)
    wait_for_status(tab, "did not confirm it")
    assert list_signature_deliveries(world, thread) == []


def test_at_another_address_nothing_is_signed(world: Harness, tab: Tab) -> None:
    """At 127.0.0.1 the browser gives no signature for another name."""
    give_passkey(world, tab)
    thread = steps.ask_for(world, steps.NOTE)
    url = steps.press_approve(world, thread)
    tab.driver.get(url.replace("localhost", "127.0.0.1"))
    tab.press(BUTTON)
    wait_for_status(tab, "don’t work at this address")
    assert list_signature_deliveries(world, thread) == []
    assert tab.all(BUTTON) == []


def test_a_signature_posted_twice_is_one_vote(world: Harness, tab: Tab) -> None:
    """The first post decides; a second tab shows the outcome."""
    give_passkey(world, tab)
    thread = steps.ask_for(world, steps.NOTE)
    url = steps.press_approve(world, thread)
    tab.driver.get(url)
    first = tab.driver.current_window_handle
    # the authenticator belongs to one tab, so the post is sent twice instead
    posted_twice = tab.driver.execute_async_script(
        """const [done] = arguments;
        const send = window.fetch;
        window.fetch = async (...args) => {
          const answer = await send(...args);
          if (args[1]?.method === "POST") window.second = (await send(...args)).status;
          return answer;
        };
        document.querySelector("button").click();
        const wait = setInterval(() => {
          if (!document.querySelector("button")) { clearInterval(wait); done(window.second); }
        }, 50);"""
    )
    assert posted_twice in (200, 202)
    assert tab.driver.current_window_handle == first
    wait_for_status(tab, passkey_views.SIGNED_REPLY)
    assert len(list_signature_deliveries(world, thread)) == 1
    tab.driver.switch_to.new_window("tab")
    tab.driver.get(url)
    assert passkey_views.SIGNED_REPLY in tab.text("h1")
    tab.driver.close()
    tab.driver.switch_to.window(first)


def test_signing_after_the_link_expired_is_refused(world: Harness, tab: Tab) -> None:
    """The page was open all the while; a sentence says so."""
    give_passkey(world, tab)
    thread = steps.ask_for(world, steps.NOTE)
    url = steps.press_approve(world, thread)
    tab.driver.get(url)
    world.clock.advance(301)
    tab.press(BUTTON)
    wait_for_status(tab, passkey_views.EXPIRED_LINK_REPLY)
    assert tab.all(BUTTON) == []
    tab.driver.refresh()
    assert tab.text("h1") == passkey_views.EXPIRED_LINK_REPLY
    assert get_last_call(world, thread).status is CallStatus.PENDING
    assert list_signature_deliveries(world, thread) == []


def test_an_open_page_shows_that_its_link_has_expired(world: Harness, tab: Tab) -> None:
    """The button disappears before anybody presses it."""
    give_passkey(world, tab)
    url = steps.press_approve(world, steps.ask_for(world, steps.NOTE))
    world.clock.advance(299)
    tab.driver.get(url)
    wait_for_status(tab, "The link has expired, so nothing has changed")
    assert tab.all(BUTTON) == []


def test_a_bot_that_follows_the_link_changes_nothing(world: Harness, tab: Tab) -> None:
    """Slack's preview and a scanner come first, and the person can still sign."""
    give_passkey(world, tab)
    url = steps.press_approve(world, steps.ask_for(world, steps.NOTE))
    for method in ("GET", "HEAD", "GET", "OPTIONS"):
        steps.fetch(url, method, User_Agent="Slackbot-LinkExpanding 1.0")
    tab.driver.get(url)
    tab.press(BUTTON)
    wait_for_status(tab, passkey_views.SIGNED_REPLY)


def test_without_script_or_passkeys_the_page_says_so(world: Harness, tab: Tab) -> None:
    """The call is shown without a button, with the reason."""
    give_passkey(world, tab)
    url = steps.press_approve(world, steps.ask_for(world, steps.NOTE))
    tab.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    tab.driver.get(url)
    tab.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "needs JavaScript" in tab.text("noscript")
    assert tab.all(BUTTON) == []
    gone = {"source": "delete window.PublicKeyCredential"}
    added = tab.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", gone)
    tab.driver.get(url)
    tab.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
    wait_for_status(tab, "This browser can’t use passkeys")
    assert tab.all(BUTTON) == []


def test_a_signature_is_sent_again_after_a_failed_connection(world: Harness, tab: Tab) -> None:
    """The signature is sent again, without verifying the person again."""
    give_passkey(world, tab)
    thread = steps.ask_for(world, steps.NOTE)
    tab.driver.get(steps.press_approve(world, thread))
    offline = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    tab.driver.execute_cdp_cmd("Network.enable", {})
    tab.driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    tab.press(BUTTON)
    wait_for_status(tab, "It could not be sent")
    tab.driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline | {"offline": False})
    tab.driver.set_user_verified(False)
    tab.press(BUTTON)
    wait_for_status(tab, passkey_views.SIGNED_REPLY)
    read_browser_log(tab)


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_the_page_fits_a_phone_and_is_accessible(
    world: Harness, tab: Tab, theme: str, width: int
) -> None:
    """Effect and button are visible without scrolling, and nothing is below the button."""
    give_passkey(world, tab)
    set_look(tab, theme, width)
    url = steps.press_approve(world, steps.ask_for(world, steps.NOTE))
    tab.driver.get(url)
    assert tab.driver.execute_script(ABOVE, ".card", "footer")
    box = tab.one(BUTTON).rect
    assert box["y"] + box["height"] <= 844
    assert box["height"] >= 44
    assert findings(tab) == []  # type: ignore[arg-type]  # it is asked for its driver alone
    inside = tab.driver.execute_script(BEHIND)
    set_look(tab, theme, width, inside)
    tab.driver.get(url)
    assert tab.wait(lambda: tab.all(".more")), "the end is behind the footer, and nothing says so"
    thread = steps.ask_for(world, ("note", {"text": "very long " * 200}))
    set_look(tab, theme, width, 400)
    tab.driver.get(steps.press_approve(world, thread))
    assert "There is more" in tab.text(".more")
    assert tab.one(BUTTON).rect["y"] + tab.one(BUTTON).rect["height"] <= 400
    tab.driver.execute_script("scrollTo(0, document.body.scrollHeight)")
    tab.gone(".more")
    assert tab.driver.execute_script(ABOVE, ".card", "footer")
    width_now = tab.driver.execute_script("return document.documentElement.scrollWidth")
    assert width_now <= width
    tab.driver.get(steps.issue_enrolment_link(world))
    assert findings(tab) == []  # type: ignore[arg-type]  # as above


def test_signing_works_by_keyboard(world: Harness, tab: Tab) -> None:
    """Tab leads to the button, Enter presses it, and the outcome is announced."""
    give_passkey(world, tab)
    tab.driver.get(steps.press_approve(world, steps.ask_for(world, steps.NOTE)))
    tab.keys(Keys.TAB)
    tab.has_focus("button")
    tab.keys(Keys.ENTER)
    wait_for_status(tab, passkey_views.SIGNED_REPLY)
    assert tab.one(SAID).get_attribute("role") == "status"
