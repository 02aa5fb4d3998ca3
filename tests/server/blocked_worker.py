"""A web worker that handles SIGTERM forever and blocks all its other threads."""

import ctypes
import signal

from granian import _signals

from authzconsole.server_worker import application

__all__ = ["application"]
_set_loop_signals = _signals.set_loop_signals


def _set_blocking_signals(loop):
    event = _set_loop_signals(loop)
    # a function of PyDLL keeps the lock of the interpreter
    signal.signal(signal.SIGTERM, lambda *args: ctypes.PyDLL(None).pause())
    return event


_signals.set_loop_signals = _set_blocking_signals
