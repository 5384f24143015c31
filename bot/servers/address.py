"""Where the servers of the file are, as the connection takes it."""

from __future__ import annotations

from bot.servers.file import Server
from countersign.mcp_client.address import Address, CommandAddress, UrlAddress

PATIENCE = 30.0  # seconds in which a server has to be there, if calls have no more
_READ = 300.0  # seconds between two signs of life over HTTP


def address_of(server: Server) -> Address:
    """Return where a server is, with what its table says in confidence."""
    if server.url is not None:
        headers = {name: each.get_secret_value() for name, each in server.headers.items()}
        return UrlAddress(server.url, headers, server.timeout, _READ + server.answer_within)
    assert server.command is not None
    return CommandAddress(
        server.command,
        tuple(each.get_secret_value() for each in server.args),
        {name: each.get_secret_value() for name, each in server.env.items()},
    )
