"""What is recorded before a process ends is exported, however it ends.

Normal exit runs `atexit`. A child that `multiprocessing` made by fork or by its fork server leaves
by `os._exit` and runs only the finalizers of `multiprocessing.util`. No signal handler is
installed: an engine has its own, and they end in one of those two.
"""

from __future__ import annotations

import atexit
import os
import sys

from stagespan import _native

#: The longest that exit waits for the receiver, in seconds.
FLUSH_TIMEOUT_S = 2.0

#: Lower than the finalizers of everybody else, so that what they still record is flushed too.
_EXIT_PRIORITY = -100


class _Anchor:
    """What `multiprocessing` keeps its after-fork function alive by."""


_anchor = _Anchor()
_is_joined = False


def flush_at_exit() -> None:
    """Exports what there is; a process that recorded nothing leaves at once."""
    _native.flush(FLUSH_TIMEOUT_S)


def _add_finalizer(_: object = None) -> None:
    from multiprocessing import util

    util.Finalize(None, flush_at_exit, exitpriority=_EXIT_PRIORITY)


def _join_multiprocessing() -> None:
    """Registers with `multiprocessing`, if the process uses it; importing it would cost more than
    the rest of this package."""
    global _is_joined
    if _is_joined or (util := sys.modules.get("multiprocessing.util")) is None:
        return
    _is_joined = True
    # A forked child forgets the finalizers of its parent before it runs these functions.
    util.register_after_fork(_anchor, _add_finalizer)
    _add_finalizer()


def install() -> None:
    """Registers with the interpreter's own exit and with every fork to come."""
    atexit.register(flush_at_exit)
    _join_multiprocessing()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_join_multiprocessing)
