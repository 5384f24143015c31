"""Closing the poster of webhooks."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from bot.http.webhooks import PostResult, WebhookPoster

NOT_POSTED = PostResult(False, why="this process is stopping")


def test_closing_an_unused_poster_starts_no_thread() -> None:
    """It posts nothing afterwards."""
    poster, before = WebhookPoster(), threading.active_count()
    poster.close()
    assert threading.active_count() == before
    assert poster.post_message("http://127.0.0.1:1/", "{}", {}) == NOT_POSTED
    assert threading.active_count() == before


def test_an_address_that_never_answers_does_not_delay_closing() -> None:
    """The post is cut short; it is tried again after the next start."""
    poster = WebhookPoster()
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        post = pool.submit(poster.post_message, url, "{}", {})
        line, _ = server.accept()
        with line:  # otherwise the connection is closed at once, which is an answer
            begun = time.monotonic()
            poster.close()
            assert post.result(5) == NOT_POSTED
            assert time.monotonic() - begun < 5
    poster.close()
