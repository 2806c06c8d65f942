"""Threads that run the twin together: the caller is number 0, the others wait for work.

Within a call they synchronise at barriers. If one of them fails, the others would wait for it for
ever, so it releases them by changing the barriers; the contents of the memory are then unusable.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial

from wgcc_runtime.wasm_engine import Instance, compiled, shared_memory, wasmtime

# Adds one to each word that a module may use for barriers, and wakes the threads that wait there.
RELEASE = """
(module
  (import "env" "memory" (memory 1 65536 shared))
  (func (export "release") (param i32 i32) (local $at i32)
    loop $next
      (drop (i32.atomic.rmw.add (local.get $at) (i32.const 1)))
      (drop (memory.atomic.notify (local.get $at) (i32.const -1)))
      (local.set $at (i32.add (local.get $at) (i32.const 4)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 1024)))
    end))
"""
# The pause between two attempts to release the threads.
PAUSE_SECONDS = 0.001


class Team:
    """One module in several threads with one memory."""

    def __init__(self, code: bytes, pages: int, threads: int) -> None:
        self._pages = pages
        self._memory = shared_memory(pages) if threads > 1 else None
        module = compiled(code)
        self._instances = [
            Instance(module, pages, number, threads, self._memory) for number in range(threads)
        ]
        self.data = self._instances[0].data()
        self._members: list[_Member] = []
        self._lock = threading.Lock()
        self._at_work = 0
        self._failures: list[BaseException] = []

    def check_export(self, name: str) -> None:
        self._instances[0].check_export(name)

    def run(self, name: str, alone: bool = False) -> None:
        """Runs an export in all threads; returns when all are done, or raises an error.

        `alone`: in the caller's thread only.
        """
        first, others = self._instances[0], self._instances[1:]
        if alone or not others:
            first.call(name, alone=True)
            return
        if not self._members:
            # Not earlier: a caller that only reads parameters needs no threads.
            self._members = [_Member(instance) for instance in others]
            # At the end of the program they may be at work, and end with it.
            weakref.finalize(self, _end, tuple(self._members)).atexit = False
        self._at_work, self._failures = len(self._instances), []
        for member in self._members:
            member.begin(partial(self._take_part, name))
        self._take_part(name, first)
        for member in self._members:
            member.wait()
        if self._failures:
            raise self._failures[0]

    def close(self) -> None:
        _end(self._members)
        self._members, self._instances = [], []

    def _take_part(self, name: str, instance: Instance) -> None:
        try:
            instance.call(name)
        except BaseException as error:
            self._failures.append(error)
        with self._lock:
            self._at_work -= 1
        if self._failures:
            self._release_others()

    def _release_others(self) -> None:
        """Repeats until all have returned: they may wait at one barrier after the other."""
        code = bytes(wasmtime().wat2wasm(RELEASE))
        instance = Instance(compiled(code), self._pages, memory=self._memory)
        while self._at_work:
            instance.call("release")
            time.sleep(PAUSE_SECONDS)


class _Member:
    """A thread that runs one job after the other. While it waits, it keeps no team alive."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._job: Callable[[Instance], None] | None = None
        self._has_ended = False
        # Locks as signals, because they wake a thread fastest.
        self._begun, self._ended = threading.Lock(), threading.Lock()
        self._begun.acquire()
        self._ended.acquire()
        threading.Thread(target=self._serve, name="wgcc twin", daemon=True).start()

    def begin(self, job: Callable[[Instance], None]) -> None:
        self._job = job
        self._begun.release()

    def end(self) -> None:
        """Ends the thread by giving it no job; may be called again."""
        if not self._has_ended:
            self._has_ended = True
            self._begun.release()

    def wait(self) -> None:
        self._ended.acquire()

    def _serve(self) -> None:
        while True:
            self._begun.acquire()
            job, self._job = self._job, None
            if job is None:
                return
            job(self._instance)
            del job
            self._ended.release()


def _end(members: Sequence[_Member]) -> None:
    for member in members:
        member.end()
