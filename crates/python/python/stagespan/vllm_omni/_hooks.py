"""Hooks around another package's functions that can't get in its way.

A hook is what runs before or after the function that it watches. Whatever a hook raises is counted,
said once per hook, and forgotten: the watched function runs all the same, with its own arguments,
result and exceptions. Only `Exception` is caught, since the engine's signal handlers leave through
our code by `SystemExit`.
"""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

logger = logging.getLogger("stagespan")

#: How often each hook has failed.
faults: Counter[str] = Counter()

_MARK = "__stagespan_watches__"


def fault(hook: str) -> None:
    """Counts a hook's failure, from inside its `except`; the first of each is logged."""
    faults[hook] += 1
    if faults[hook] == 1:
        logger.warning(
            "stagespan: hook %s failed and is ignored, as will be any further failure of it; "
            "the engine is not affected, but spans may be missing",
            hook,
            exc_info=True,
        )


def around(
    owner: type,
    name: str,
    *,
    before: Callable[..., Any] | None = None,
    after: Callable[..., None] | None = None,
) -> None:
    """Watches `owner.name`, which must be defined in that very class.

    `before(*arguments)` gets the arguments; what it returns is the first argument of
    `after(token, result, *arguments)`, which runs only if the function returned.
    """
    original = owner.__dict__[name]
    if hasattr(original, _MARK):
        return
    where = f"{owner.__name__}.{name}"
    watching = _watching(original, where, before, after)
    setattr(watching, _MARK, original)
    setattr(owner, name, watching)


def _watching(
    original: Callable[..., Any],
    where: str,
    before: Callable[..., Any] | None,
    after: Callable[..., None] | None,
) -> Callable[..., Any]:
    # Three shapes, since some of these run in every step of a scheduler.
    if after is None:
        assert before is not None

        @functools.wraps(original)
        def watching(*args: Any, **kwargs: Any) -> Any:
            try:
                before(*args, **kwargs)
            except Exception:
                fault(where)
            return original(*args, **kwargs)

    elif before is None:

        @functools.wraps(original)
        def watching(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            try:
                after(None, result, *args, **kwargs)
            except Exception:
                fault(where)
            return result

    else:

        @functools.wraps(original)
        def watching(*args: Any, **kwargs: Any) -> Any:
            token = None
            try:
                token = before(*args, **kwargs)
            except Exception:
                fault(where)
            result = original(*args, **kwargs)
            try:
                after(token, result, *args, **kwargs)
            except Exception:
                fault(where)
            return result

    return watching


def around_async(
    owner: type,
    name: str,
    *,
    before: Callable[..., Any] | None = None,
    finally_: Callable[..., None] | None = None,
) -> None:
    """Watches the coroutine function `owner.name`. `finally_(token, *arguments)` runs however it
    ends, cancellation included."""
    original: Callable[..., Awaitable[Any]] = owner.__dict__[name]
    if hasattr(original, _MARK):
        return
    where = f"{owner.__name__}.{name}"

    @functools.wraps(original)
    async def watching(*args: Any, **kwargs: Any) -> Any:
        token = None
        if before is not None:
            try:
                token = before(*args, **kwargs)
            except Exception:
                fault(where)
        try:
            return await original(*args, **kwargs)
        finally:
            if finally_ is not None:
                try:
                    finally_(token, *args, **kwargs)
                except Exception:
                    fault(where)

    setattr(watching, _MARK, original)
    setattr(owner, name, watching)


def is_watched(owner: type, name: str) -> bool:
    """Whether `owner.name` is watched already."""
    return hasattr(owner.__dict__.get(name), _MARK)
