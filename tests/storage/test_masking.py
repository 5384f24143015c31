"""Secrets are masked by their look wherever they stand; ordinary words and ids never are."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError

from bot.monitoring.logs import mask_root_log_handlers
from storage.masking import MASK, mask_secrets, mask_secrets_in_json

KEY = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n"
    "MIIEpAIBAAKCAQEA7\n-----END RSA PRIVATE KEY-----"
)
SECRETS = {  # a secret -> what is left of it
    "xoxb-123456789012-AbCdEf": f"xoxb-{MASK}",
    "xoxp-123456789012-AbCdEf": f"xoxp-{MASK}",
    "xoxe.xoxp-1-Mi0yLTEyMzQ1": f"xoxe.xoxp-{MASK}",
    "xapp-1-A0123-456-abcdef": f"xapp-{MASK}",
    "https://hooks.slack.com/services/T0123/B0123/abcdefgh": f"https://hooks.slack.com/services/{MASK}",
    "sk-proj-abcdefghij0123456789ABCD": f"sk-{MASK}",
    f"csk_{'0123456789abcdef'}_{'Ab-_' * 10}xyz": f"csk_{MASK}",
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw": f"whsec_{MASK}",
    "sk_live_abcdefghij0123456789": f"sk_live_{MASK}",
    "AKIAIOSFODNN7EXAMPLE": f"AKIA{MASK}",
    "AIza" + "Sy0_-" * 7: f"AIza{MASK}",
    "ghp_abcdefghij0123456789ABCDEFGHIJ": f"ghp_{MASK}",
    "github_pat_11ABCDEFG0_abcdefghij": f"github_pat_{MASK}",
    "glpat-abcdefghij0123456789": f"glpat-{MASK}",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP": f"eyJ{MASK}",
    KEY: f"-----BEGIN RSA PRIVATE KEY-----{MASK}-----END RSA PRIVATE KEY-----",
    "password=hunter2": f"password={MASK}",
    "DB_PASSWORD='two words'": f"DB_PASSWORD='{MASK}'",
    "client_secret = abc": f"client_secret = {MASK}",
    "aws_secret_access_key=abc/def+ghi": f"aws_secret_access_key={MASK}",
    '{"apiKey": "a\\"b"}': f'{{"apiKey": "{MASK}"}}',
    "postgres://app:p@ss@db.example/shop": f"postgres://app:{MASK}@db.example/shop",
    "redis://:hunter2@cache:6379": f"redis://:{MASK}@cache:6379",
    "Authorization: Basic dXNlcjpwYXNz": f"Authorization: Basic {MASK}",
    "Bearer abcdefgh12345678ijkl": f"Bearer {MASK}",
}
ORDINARY = [
    "U0123456789",
    "C0SUPPORT",
    "S0123ABCD",
    "<@UBEN00001> asks",
    "1700000000.000100",
    "order 1042",
    "PO-2026-000123",
    "40.00 EUR",
    "2026-11-21T14:02:00Z",
    "c0ffee00" * 8,
    "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "The password has to be changed; ask for a new token.",
    "A bearer of bad news",
    "bearer authentication/authorization",
    "risk-averse, task-force-of-the-month",
    "sk-learn-compatible-estimators",
    "if password == stored:",
    "passwords=",
    "max_tokens=500&page_token=abc",
    "http://localhost:3000/@scope/package",
    "https://example.com:8443/a?b=c#d",
    "mailto:ana@example.com at 10:30@home",
    "Meet me at https://example.com, ana@example.com",
    "KAKIAMOTO",
    "SKU-sk-12",
    "a monkey = an ape",
    "-----BEGIN CERTIFICATE-----\nMIID",
    "eyJ is how it begins",
    "<!date^1700000000^{date}|then>",
]


@pytest.mark.parametrize(("secret", "left"), SECRETS.items(), ids=lambda text: text[:20])
@pytest.mark.parametrize("around", ["{}", "use {} please", "(“{}”)", "a\n{}\nb", "{}, {}"])
def test_each_kind_of_secret_is_masked_in_any_text(secret: str, left: str, around: str) -> None:
    """The beginning that shows its kind stays."""
    assert mask_secrets(around.format(*[secret] * 2)) == around.format(*[left] * 2)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_not_masked(text: str) -> None:
    """It is what people write, and the ids of this product."""
    assert mask_secrets(text) == text


def test_a_private_key_without_its_end_is_masked_to_the_end() -> None:
    """The text is cut off within the key."""
    assert mask_secrets(KEY[:60]) == f"-----BEGIN RSA PRIVATE KEY-----{MASK}"


words = st.text(st.sampled_from("abcdefghijklmnopqrstuvwxyzäéßжあ"), min_size=1, max_size=12)
ids = st.one_of(
    st.text(st.sampled_from("ABCXYZ0189"), min_size=6, max_size=9).map("U0{}".format),
    st.binary(min_size=4, max_size=32).map(bytes.hex),
    st.integers(0, 10**16).map(str),
    st.integers(0, 10**8).map("PO-{}".format),
)
glues = st.sampled_from([" ", ", ", ": ", "\n", "; ", " – ", "/", " (", "’"])
prose = st.builds(lambda glue, parts: glue.join(parts), glues, st.lists(words | ids, max_size=8))


@given(prose)
def test_random_words_and_ids_are_not_masked(text: str) -> None:
    """Digests and order numbers are among them."""
    assert mask_secrets(text) == text


@given(prose, st.sampled_from(sorted(SECRETS)), prose)
def test_a_secret_between_random_words_is_masked(before: str, secret: str, after: str) -> None:
    """Masking again changes nothing."""
    found = mask_secrets(f"{before} {secret} {after}")
    assert found == f"{before} {SECRETS[secret]} {after}"
    assert mask_secrets(found) == found


PIECES = [*SECRETS, *ORDINARY, "=", '"', " ", ":", "://", "@", "-", MASK]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_masking_masked_text_changes_nothing(text: str) -> None:
    """Secrets run into each other here."""
    once = mask_secrets(text)
    assert mask_secrets(once) == once


BEGINNINGS = [
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN ",
    "xoxb-",
    "xoxe.",
    "sk-a",
    "sk-",
    "AKIA",
    "AIza",
    "ghp_",
    "eyJ",
    "eyJa.",
    "eyJaaaaaaaaa.eyJaaaaaaaaa",
    "password=",
    "password = ",
    "password='",
    '"password":"',
    '"password":"\\',
    "a_",
    '"a',
    "://",
    "://a:",
    "://:a",
    "Bearer ",
    "bearer a",
    "authorization: a ",
    "hooks.slack.com/a",
    "secret_",
    "secret_access_",
]


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_masking_takes_time_in_proportion_to_the_text(beginning: str) -> None:
    """The texts begin like a secret many times."""
    text = beginning * (100_000 // len(beginning)) + " xox sk- eyj :// = akia bearer authorization"
    began = time.process_time()
    mask_secrets(text)
    assert time.process_time() - began < 2  # quadratic time would be minutes


def test_masking_json_keeps_its_shape() -> None:
    """Every text in it is masked, however deep; keys and numbers stay."""
    data = {"why": "token xoxb-123456789012", "n": [1, None, True, {"deep": ("password=x",)}]}
    assert mask_secrets_in_json(data) == {
        "why": f"token xoxb-{MASK}",
        "n": [1, None, True, {"deep": [f"password={MASK}"]}],
    }
    assert json.dumps(mask_secrets_in_json(data))


@pytest.fixture
def log_output() -> Iterator[io.StringIO]:
    """The output of a handler at the root logger."""
    stream, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(stream)
    root.addHandler(handler)
    mask_root_log_handlers()
    mask_root_log_handlers()
    assert len(handler.filters) == 1
    yield stream
    root.removeHandler(handler)


def test_log_messages_and_tracebacks_are_masked(log_output: io.StringIO) -> None:
    """The arguments of messages are masked, too."""
    log = logging.getLogger("countersign.test")
    log.warning("it says %s of %d", "xoxb-123456789012-abc", 7)
    try:
        raise ValueError("postgres://app:hunter2@db/shop")
    except ValueError:
        log.exception("call %s failed", "c1")
    text = log_output.getvalue()
    assert f"it says xoxb-{MASK} of 7" in text
    assert f"ValueError: postgres://app:{MASK}@db/shop" in text
    assert "Traceback" in text
    assert "hunter2" not in text


def test_an_unreachable_database_is_logged_in_one_line(
    log_output: io.StringIO, tmp_path: Path
) -> None:
    """The line says what the database said; any other error has its traceback."""
    log = logging.getLogger("countersign.test")
    engine = create_engine(f"sqlite:///{tmp_path / 'missing' / 'record.db'}")
    for statement in ("SELECT 1", "SELEC 1"):
        try:
            with engine.connect() as connection:
                connection.exec_driver_sql(statement)
        except DBAPIError:
            log.exception("call %s failed", "c1")
        engine.dispose()
        engine = create_engine("sqlite://")
    engine.dispose()
    away, *mistake = log_output.getvalue().splitlines()
    assert away.endswith("call c1 failed: unable to open database file")
    assert mistake[0].endswith("call c1 failed")
    assert mistake[1].startswith("Traceback")
