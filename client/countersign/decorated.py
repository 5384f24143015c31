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
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from string import Formatter
from typing import Any, ParamSpec, TypeVar, cast

from countersign.client import Countersign, Seconds
from countersign.context import Circumstances, as_told, suspension_now
from countersign.gated_call import GatedCall, TakenCall, Terms
from countersign.request import CountersignError, Does, OwnAction, Request, as_effect
from countersign.schema import FunctionShape, named_parameters, shape_of

# Blocking work for asyncio, each on its own thread: it may wait for days without holding up other
# work or the end of the process.

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` on its own thread, in the caller's context; return its result or raise its error.

    If the awaiting task is cancelled, the thread goes on by itself.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: T | None, error: BaseException | None) -> None:
        if ended.done():  # cancelled meanwhile
            return
        if error is not None:
            ended.set_exception(error)
        else:
            ended.set_result(result)  # type: ignore[arg-type] # T itself may be None

    def run() -> None:
        result, error = None, None
        try:
            result = context.run(work)
        except Exception as raised:  # noqa: BLE001 # it is raised where it is awaited
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="countersigned", daemon=True).start()
    return await ended


P = ParamSpec("P")
R = TypeVar("R")
_MINE = "__countersigned__"


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

    terms = Terms(client, wait, Circumstances(**circumstances), tells_why)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        gated = _Gated(function, _described(function, title, effect, does, without), terms)
        if inspect.iscoroutinefunction(function):
            return cast("Callable[P, R]", gated.asynchronous())
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{function.__name__} is a generator; decorate what returns a value")
        return gated.synchronous()

    return decorate


def ask(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Request:
    """Ask people to approve a call of a decorated function, and return the request without waiting.

    Within a run, a call that was asked before is found and not asked again. Raises TypeError for a
    function that is not decorated, NotAllowed, Unreachable, and pydantic.ValidationError.
    """
    gated = getattr(function, _MINE, None)
    if not isinstance(gated, _Gated):
        name = getattr(function, "__name__", str(function))
        raise TypeError(f"{name} is not decorated with @countersigned")
    return gated.attempt((), dict(arguments)).ask()


@dataclass(frozen=True, slots=True)
class _Described:
    """Title, effect and parameters of a function as people see them; its types are not read yet."""

    title: str
    effect: str
    does: Does | None
    parameters: Mapping[str, inspect.Parameter]


def _described(
    function: Callable[..., Any], title: str, effect: str, does: str, without: Collection[str]
) -> _Described:
    parameters = named_parameters(function, without)
    title = title or in_words(function.__name__)
    for _, name, form, conversion in Formatter().parse(effect):
        if name is not None and (name not in parameters or form or conversion):
            raise ValueError(f"the effect of {function.__name__} names {{{name}}}, no parameter")
    return _Described(title, effect or as_effect(title), Does(does) if does else None, parameters)


def in_words(name: str) -> str:
    """Return an identifier in words: deploy_app becomes "Deploy app"."""
    words = name.strip("_").replace("_", " ")
    return words[:1].upper() + words[1:]


class _Gated:
    """A decorated function, its description for people, and the terms on which they are asked."""

    def __init__(self, function: Callable[..., Any], said: _Described, terms: Terms) -> None:
        self._function = function
        self._said = said
        self._terms = terms
        self._signature = inspect.signature(function)

    @cached_property
    def _shape(self) -> FunctionShape:
        return shape_of(self._function, self._said.parameters)

    def attempt(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> GatedCall:
        """Return the gated call for these arguments.

        Raises TypeError and pydantic.ValidationError.
        """
        given = self._signature.bind(*args, **kwargs)
        given.apply_defaults()
        values = {name: given.arguments[name] for name in self._said.parameters}
        shape, said = self._shape, self._said
        name = self._function.__name__
        action = OwnAction(name, said.title, said.effect, said.does, shape.schema)
        return GatedCall(action, shape.to_json(values), self._terms, given)

    def _call(self, attempt: GatedCall, taken: TakenCall) -> Any:
        """Call the function with the approved arguments; for an async one, return the coroutine."""
        given = attempt.given
        given.arguments.update(self._shape.from_json(taken.arguments))
        return self._function(*given.args, **given.kwargs)

    def _instead(self, error: CountersignError) -> str:
        """Return the reason a call did not run if `tells_why` applies; else raise `error`."""
        if not self._terms.tells_why or suspension_now() is not None:
            raise error
        return as_told(error)

    def synchronous(self) -> Callable[..., Any]:
        """Return the wrapper of a sync function: it asks, waits, calls the function and reports."""

        @wraps(self._function)
        def asked(*args: Any, **kwargs: Any) -> Any:
            attempt = self.attempt(args, kwargs)
            try:
                taken = attempt.take()
            except CountersignError as error:
                return self._instead(error)
            if taken is None:
                return self._shape.result_from_json(attempt.earlier)
            with taken.kept():
                try:
                    result = self._call(attempt, taken)
                except Exception as error:
                    taken.report(succeeded=False, result=error)
                    raise
            taken.report(succeeded=True, result=result)
            return result

        setattr(asked, _MINE, self)
        return asked

    def asynchronous(self) -> Callable[..., Awaitable[Any]]:
        """Return the wrapper of an async function; waiting happens on threads, not on the loop."""

        @wraps(self._function)
        async def asked(*args: Any, **kwargs: Any) -> Any:
            attempt = self.attempt(args, kwargs)
            try:
                taken = await in_thread(attempt.take)
            except CountersignError as error:
                return self._instead(error)
            except BaseException:
                attempt.give_up()
                raise
            if taken is None:
                return self._shape.result_from_json(attempt.earlier)
            with taken.kept():
                try:
                    result = await self._call(attempt, taken)
                except Exception as error:
                    await in_thread(partial(taken.report, succeeded=False, result=error))
                    raise
            await in_thread(partial(taken.report, succeeded=True, result=result))
            return result

        setattr(asked, _MINE, self)
        return asked
