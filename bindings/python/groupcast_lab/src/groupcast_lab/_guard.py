"""Runs a program that is killed when its parent dies: ``_guard.py PARENT PROGRAM ARGUMENT...``

A worker that is killed takes no leave of the simulation that it started; without this, that simulation would go on and
compete with the one that repeats its work. It is a program of its own, not a function called between ``fork`` and
``exec``, because workers have threads. It imports nothing of the package: it starts in milliseconds.
"""

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def _die_with_parent(parent: int) -> None:
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it died before we asked to be told
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _die_with_parent(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])
