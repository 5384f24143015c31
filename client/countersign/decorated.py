"""`@countersigned`: a decorator that runs a function only after people have approved the call.

    @countersigned(title="Deploy", effect="Deploy {version} to {env}")
    def deploy(version: str, env: str) -> str:
        …

The function keeps its name, documentation and signature, so that an agent framework can make a tool
of it as of any other.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import re
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property, partial, wraps
from inspect import BoundArguments
from string import Formatter
from typing import Any, ParamSpec, TypeVar, cast

from countersign import schema
from countersign.client import Countersign, Seconds
from countersign.context import CURRENT_SUSPENSION, RequestCircumstances, describe_call_error
from countersign.gated_call import ClaimedGatedCall, GatedCall, GatedCallOptions
from countersign.request import CountersignError, Does, OwnAction, Request, escape_braces

# Runs blocking work for asyncio, each on its own thread: it may wait for days without holding up
# other work or the end of the process.

T = TypeVar("T")


async def run_in_thread(work: Callable[[], T]) -> T:
    """Run `work` on its own thread, in the caller's context; return its result or raise its error.

    If the awaiting task is cancelled, the thread goes on by itself. Raises RuntimeError, and does
    nothing, outside of asyncio's loop.
    """
    loop = asyncio.get_running_loop()
    running: Future[T] = Future()
    running.set_running_or_notify_cancel()  # from here on a cancelled task does not cancel it
    context = contextvars.copy_context()

    def run() -> None:
        try:
            running.set_result(context.run(work))
        except Exception as raised:  # noqa: BLE001 # it is raised where it is awaited
            running.set_exception(raised)

    threading.Thread(target=run, name="countersigned", daemon=True).start()
    return await asyncio.wrap_future(running, loop=loop)


P = ParamSpec("P")
R = TypeVar("R")
_GATED_CALL_ATTRIBUTE = "__countersigned__"
_TOOL_NAME_PATTERN = re.compile(r"[A-Za-z0-9_]{1,64}")  # as the policy's tool names


def countersigned(
    *,
    title: str = "",
    effect: str = "",
    does: str = "",
    without: Collection[str] = (),
    wait: Seconds | None = None,
    tells_why: bool = False,
    client: Countersign | None = None,
    **circumstances: str,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Have people approve each call of a function, sync or async, before the call runs.

    `title`: what the function does, by default its name in words. `effect`: what one call would do,
    with {parameter}; by default the title. `does`: read, write or destructive; if left out, the
    call counts as destructive. `without`: parameters that people are not shown and cannot change (a
    framework's context). `wait`: seconds that people have and the call waits; None: as long as
    policy says. `tells_why`: if the function did not run, return the reason in words instead of
    raising: for an agent's tools. `client`: by default one with the settings of the environment.
    `circumstances`: `run`, `requester`, `channel` and `reason`; values set by `asking` win over
    these.

    The function runs with the arguments as people approved them, perhaps edited; its result or
    exception is reported. A call raises Rejected, Expired, AlreadyTaken, DidNotWork, NotAllowed or
    Unreachable, and then the function did not run. Raises TypeError and ValueError at decoration
    for a function that cannot be shown to people.
    """

    if wait is not None and not (isinstance(wait, int | float) and wait > 0):
        raise ValueError(f"wait is the seconds that people have, and not {wait!r}")
    terms = GatedCallOptions(client, wait, RequestCircumstances(**circumstances), tells_why)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        name = getattr(function, "__name__", repr(function))
        if not _TOOL_NAME_PATTERN.fullmatch(name):
            takes = "letters, digits and underscores, 64 characters at most"
            raise TypeError(f"{name} cannot be the name of an action: {takes}")
        if isinstance(function, classmethod | staticmethod):
            kind = type(function).__name__
            raise TypeError(f"put @{kind} above @countersigned, not below, at {name}")
        parameters = schema.list_shown_parameters(function, without)
        action = _describe_function(function, parameters, title, effect, does)
        gated = _GatedFunction(function, parameters, frozenset(without), action, terms)
        if inspect.iscoroutinefunction(function):
            return cast("Callable[P, R]", gated.build_async_wrapper())
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{function.__name__} is a generator; decorate what returns a value")
        return gated.build_sync_wrapper()

    return decorate


def request_approval(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Request:
    """Ask people to approve a call of a decorated function, and return the request without waiting.

    Within a run, a call that was asked before is found and not asked again. Raises TypeError for a
    function that is not decorated, NotAllowed, Unreachable, and pydantic.ValidationError.
    """
    gated = getattr(function, _GATED_CALL_ATTRIBUTE, None)
    if not isinstance(gated, _GatedFunction):
        name = getattr(function, "__name__", str(function))
        raise TypeError(f"{name} is not decorated with @countersigned")
    return gated.build_gated_call(arguments).send_request()


def _describe_function(
    function: Callable[..., Any], parameters: Collection[str], title: str, effect: str, does: str
) -> OwnAction:
    """Return a function as people see it, without its schema: its types are not read yet."""
    name = function.__name__
    title = title or humanize_identifier(name)
    for _, place, form, conversion in Formatter().parse(effect):
        if place is not None and (place not in parameters or form or conversion):
            raise ValueError(f"the effect of {name} names {{{place}}}, which is not a parameter")
    return OwnAction(name, title, effect or escape_braces(title), Does(does) if does else None)


def humanize_identifier(name: str) -> str:
    """Return an identifier in words: deploy_app becomes "Deploy app"."""
    words = name.strip("_").replace("_", " ")
    return words[:1].upper() + words[1:]


@dataclass
class _GatedFunction:
    """A decorated function, its description for people, and the terms on which they are asked."""

    _function: Callable[..., Any]
    _parameters: Mapping[str, inspect.Parameter]
    _without: Collection[str]
    _action: OwnAction
    _terms: GatedCallOptions

    @cached_property
    def _codec(self) -> schema.FunctionJsonCodec:
        return schema.build_function_codec(self._function, self._parameters)

    def build_gated_call(self, arguments: Mapping[str, Any]) -> GatedCall:
        """Return the gated call for these arguments, with or without those people are not shown.

        Raises TypeError and pydantic.ValidationError.
        """
        values = {name: each for name, each in arguments.items() if name not in self._without}
        action = replace(self._action, schema=self._codec.schema)
        return GatedCall(action, self._codec.arguments_to_json(values), self._terms)

    def _bind_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BoundArguments:
        """Return the arguments by name, with defaults; raises TypeError if they do not fit."""
        given = schema.read_signature(self._function).bind(*args, **kwargs)
        given.apply_defaults()
        return given

    def _call_function(self, given: BoundArguments, taken: ClaimedGatedCall) -> Any:
        """Call the function with the approved arguments; for an async one, return the coroutine."""
        given.arguments.update(self._codec.arguments_from_json(taken.request.arguments))
        return self._function(*given.args, **given.kwargs)

    def _explain_or_raise(self, error: CountersignError) -> str:
        """Return the reason a call did not run if `tells_why` applies; else raise `error`."""
        if not self._terms.tells_why or CURRENT_SUSPENSION.get() is not None:
            raise error
        return describe_call_error(error)

    def build_sync_wrapper(self) -> Callable[..., Any]:
        """Return the wrapper of a sync function: it asks, waits, calls the function and reports."""

        @wraps(self._function)
        def asked(*args: Any, **kwargs: Any) -> Any:
            given = self._bind_arguments(args, kwargs)
            attempt = self.build_gated_call(given.arguments)
            try:
                claimed = attempt.claim_when_approved()
            except CountersignError as error:
                return self._explain_or_raise(error)
            if claimed is None:
                return self._codec.result_from_json(attempt.earlier_result)
            with claimed.renew_lease_during_block():
                try:
                    result = self._call_function(given, claimed)
                except Exception as error:
                    claimed.report_outcome(succeeded=False, result=error)
                    raise
            claimed.report_outcome(succeeded=True, result=result)
            return result

        setattr(asked, _GATED_CALL_ATTRIBUTE, self)
        return asked

    def build_async_wrapper(self) -> Callable[..., Awaitable[Any]]:
        """Return the wrapper of an async function; waiting happens on threads, not on the loop."""

        @wraps(self._function)
        async def asked(*args: Any, **kwargs: Any) -> Any:
            given = self._bind_arguments(args, kwargs)
            attempt = self.build_gated_call(given.arguments)
            try:
                claimed = await run_in_thread(attempt.claim_when_approved)
            except CountersignError as error:
                return self._explain_or_raise(error)
            except BaseException:
                attempt.stop_waiting()
                raise
            if claimed is None:
                return self._codec.result_from_json(attempt.earlier_result)
            with claimed.renew_lease_during_block():
                try:
                    result = await self._call_function(given, claimed)
                except Exception as error:
                    await run_in_thread(
                        partial(claimed.report_outcome, succeeded=False, result=error)
                    )
                    raise
            await run_in_thread(partial(claimed.report_outcome, succeeded=True, result=result))
            return result

        setattr(asked, _GATED_CALL_ATTRIBUTE, self)
        return asked
