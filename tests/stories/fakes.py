"""Small tools for the stories: simple ones, failing ones, and ones with previews."""

from __future__ import annotations

import threading
from asyncio import to_thread
from collections import Counter
from typing import Any

from pydantic import BaseModel, Field

from bot.tools import ChangedError, Effect, Preview, Table, Tool, ToolContext, ToolError, tool


class Note(BaseModel):
    text: str = Field(title="Text", max_length=20_000)


class Payment(BaseModel):
    amount: float


class Secret(BaseModel):
    account: str = Field(title="Account")
    password: str = Field(title="Password")


class FakeTools:
    """Tools that count effects in `ran[(tool name, text)]` and keep their call ids in `keys`."""

    def __init__(self) -> None:
        self.ran: Counter[tuple[str, str]] = Counter()
        self.keys: list[str] = []
        self.entered = threading.Event()  # set once a `slow` call has begun
        self.go_on = threading.Event()  # lets it end once set
        self.shelf = 3  # number of books
        self.tools: list[Tool[Any]] = [
            *self._build_simple(),
            *self._build_failing(),
            *self._build_previewed(),
        ]

    def did(self, name: str, text: str) -> int:
        """Return how often a tool had its effect with this text."""
        return self.ran[(name, text)]

    def _effect(self, name: str, text: str, context: ToolContext) -> None:
        self.ran[(name, text)] += 1
        self.keys.append(context.call_id)

    def _build_simple(self) -> list[Tool[Any]]:
        write = Effect.WRITE

        @tool(title="Write a note", effect="Write “{text}”", does=write)
        def note(args: Note, context: ToolContext) -> str:
            self._effect("note", args.text, context)
            return f"noted {args.text}"

        @tool(title="Write a note asynchronously", effect="Write “{text}”", does=write)
        async def async_note(args: Note, context: ToolContext) -> dict[str, str]:
            self._effect("async_note", args.text, context)
            return {"noted": args.text}

        @tool(title="Set a value", effect="Set “{text}”", does=write, idempotent=True)
        def put(args: Note, context: ToolContext) -> str:
            self._effect("put", args.text, context)
            return f"put {args.text}"

        @tool(title="Wipe something", effect="Wipe “{text}”", does=Effect.DESTRUCTIVE)
        def wipe(args: Note, context: ToolContext) -> str:
            self._effect("wipe", args.text, context)
            return "wiped"

        @tool(title="Look at something", effect="Look at “{text}”", does=Effect.READ)
        def peek(args: Note, context: ToolContext) -> str:
            self._effect("peek", args.text, context)
            return f"saw {args.text}"

        @tool(
            title="Log in",
            effect="Log in to {account} with {password}",
            does=write,
            secret={"password"},
            step=lambda args: f"logging in to {args.account}\nwith {args.password}.",
        )
        def login(args: Secret, context: ToolContext) -> str:
            self._effect("login", args.password, context)
            return "logged in"

        @tool(title="Top up", effect="Top up by {amount}", does=write)
        def top_up(args: Payment, context: ToolContext) -> str:
            self._effect("top_up", str(args.amount), context)
            return "topped up"

        return [note, async_note, put, wipe, peek, login, top_up]

    def _build_failing(self) -> list[Tool[Any]]:
        write = Effect.WRITE

        @tool(title="Refuse", effect="Refuse “{text}”", does=write)
        def refuse(args: Note, context: ToolContext) -> str:
            raise ToolError(f"no {args.text} here")

        @tool(title="Explode", effect="Explode “{text}”", does=write)
        def explode(args: Note, context: ToolContext) -> str:
            self._effect("explode", args.text, context)
            raise RuntimeError(f"boom {args.text}")

        @tool(title="Lose the answer", effect="Do “{text}”", does=write)
        def lose(args: Note, context: ToolContext) -> str:
            self._effect("lose", args.text, context)
            raise ConnectionResetError("the line went dead")

        @tool(
            title="Set a value and lose the answer",
            effect="Set “{text}”",
            does=write,
            idempotent=True,
        )
        def lose_put(args: Note, context: ToolContext) -> str:
            self._effect("lose_put", args.text, context)
            raise ConnectionResetError("the line went dead")

        @tool(
            title="Watch something",
            effect="Watch “{text}”",
            does=Effect.READ,
            step=lambda args: f"watching {args.text}",
        )
        def watch(args: Note, context: ToolContext) -> str:
            self.entered.set()
            self.go_on.wait(15)
            if "in vain" in args.text:
                raise ToolError("nothing to be seen")
            return f"watched {args.text}"

        @tool(title="Take long", effect="Take long over “{text}”", does=write, timeout=60)
        def slow(args: Note, context: ToolContext) -> str:
            self.entered.set()
            self.go_on.wait(45)
            self._effect("slow", args.text, context)
            return f"slowly {args.text}"

        return [refuse, explode, lose, lose_put, watch, slow]

    def _build_previewed(self) -> list[Tool[Any]]:
        """Tools with a preview, which may have to be the same when the call runs."""

        @tool(
            title="Empty a shelf",
            effect="Empty “{text}”",
            does=Effect.WRITE,
            preview=self._preview_shelf,
        )
        def empty(args: Note, context: ToolContext) -> str:
            if args.text == "slowly":
                self.entered.set()
                self.go_on.wait(15)
            if context.expects and context.expects != str(self.shelf):
                raise ChangedError(f"There are {self.shelf} books now, not {context.expects}.")
            self._effect("empty", args.text, context)
            return f"emptied {args.text} of {self.shelf}"

        @tool(title="List books", effect="List the books on “{text}”", does=Effect.READ)
        def books(args: Note, context: ToolContext) -> Table:
            if args.text == "slowly":
                self.entered.set()
                self.go_on.wait(15)
            if args.text == "wide":
                return Table("Wide", tuple("abcdefghij"), (("&" * 80,) * 10,) * 20)
            rows = tuple((number, f"=Book {number}", None) for number in range(1, self.shelf + 1))
            return Table(
                f"Books on {args.text}", ("no", "title", "lent to"), rows, more=self.shelf > 40
            )

        def pay(args: Note, context: ToolContext) -> Preview:
            return Preview(f"ana 9000\nben 8000 ({args.text})", in_thread="2 rows of 1 column")

        @tool(title="Look up", effect="Look up “{text}”", does=Effect.WRITE, preview=pay)
        def look_up(args: Note, context: ToolContext) -> str:
            return "looked up"

        @tool(
            title="Try one's luck",
            effect="Try {text}",
            does=Effect.WRITE,
            preview=self._preview_luck,
        )
        def luck(args: Note, context: ToolContext) -> str:
            self._effect("luck", args.text, context)
            return "lucky"

        return [empty, books, look_up, luck]

    async def _preview_luck(self, args: Note, context: ToolContext) -> str:
        if "slowly" in args.text:
            self.entered.set()
            await to_thread(self.go_on.wait, 15)
        if "in vain" in args.text:
            raise ToolError(f"there is no luck in {args.text}")
        return f"fortune for {context.requester} in {context.channel}"

    def _preview_shelf(self, args: Note, context: ToolContext) -> Preview:
        return Preview(f"{self.shelf} books stand on {args.text}", expects=str(self.shelf))
