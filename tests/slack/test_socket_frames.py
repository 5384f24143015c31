"""What arrives over a socket is read whole, however it was cut on the way."""

from __future__ import annotations

import socket
import threading

import pytest

from bot.slack.websocket_frames import MessageSocket
from tests.slack.test_socket_refresh import ListeningApp, listening  # noqa: F401 - a fixture


@pytest.mark.parametrize("most", [1, 100, 65_536])
def test_a_message_in_several_frames_is_acknowledged(
    listening: ListeningApp,  # noqa: F811 - the fixture
    most: int,
) -> None:
    """Slack's reader in Python forgets all but the first frame, so it never was."""
    listening.sandbox.faults.split_messages(most)
    words = ["refund “plums” ✓", "x" * 70_000 if most > 1 else "refund", "and done"]
    for each in words:
        assert listening.say(each).wait() == "acked"
    assert listening.texts == words


def test_a_frame_that_arrives_slowly_is_read_whole() -> None:
    """A read that ends for lack of data does not lose the frame's beginning; pings in between are
    frames of their own.
    """
    ours, slacks = socket.socketpair()
    ours.settimeout(0.05)
    receiver = MessageSocket(ours)
    first, ping, rest = b"\n\x01\x03abc", b"\x89\x02hi", b"\x80\x7e\x00\x03def"
    with ours, slacks:
        for part in (first[:3], first[3:] + ping[:1]):
            slacks.sendall(part)
            with pytest.raises(TimeoutError):
                receiver.recv(1)
        threading.Timer(0.0, slacks.sendall, [ping[1:] + rest]).start()
        assert receiver.recv(1) == ping
        assert receiver.recv(1) == b"\x81\x7f" + (6).to_bytes(8, "big") + b"abcdef"
        slacks.close()
        with pytest.raises(ConnectionResetError):
            receiver.recv(1)
