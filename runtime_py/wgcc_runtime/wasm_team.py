"""Threads that run the twin together: number 0, which does what is submitted, and those it wakes.

None of them is the caller's, which sees signals and the time meanwhile: a module that somebody else
wrote may never return from a call, or keep the engine busy while it is compiled. Handing work over
takes 25 to 50 µs for a submit; wasmtime's own interruption (epochs) would make all loops slower,
by 27 to 57 % of the CPU time of a step. Entries that take less than that are run by `wasm_direct`.

Within a call they synchronise at barriers. If one of them fails, the others would wait for it for
ever, so it releases them by changing the barriers; the contents of the memory are then unusable.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial

from wgcc_runtime.device import LOOK_SECONDS, WAIT_SECONDS
from wgcc_runtime.errors import WgccError
from wgcc_runtime.interrupts import has_insisted
from wgcc_runtime.wasm_engine import Instance, compile_module, shared_memory, wasmtime

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

Job = Callable[[], None]


class Team:
    """One module in several threads with one memory.

    `is_broken`: a thread failed or was left at work, so that the memory holds nothing usable.
    """

    def __init__(self, code: bytes, pages: int, threads: int) -> None:
        self._pages, self._threads = pages, threads
        self._memory = shared_memory(pages) if threads > 1 else None
        self._instances: list[Instance] = []
        self.is_broken = False
        self._front: _Member | None = None
        self._members: list[_Member] = []
        self._lock = threading.Lock()
        self._at_work = 0
        # The error that ended the job, and those that its threads raised.
        self._error: BaseException | None = None
        self._failures: list[BaseException] = []
        self._doing, self._since = "loading twin.wasm", 0.0
        self.perform(partial(self._open, code))
        self.data = self._instances[0].data()

    def perform(self, job: Job) -> None:
        """Does it in thread 0, while the caller sees signals; raises what it raises.

        The job may call `run`. It is left alone if the user insists, or if a call takes too long.
        """
        self._error, self._failures, self._since = None, [], time.monotonic()
        self._front = self._front or self._start()
        self._front.begin(partial(self._keep_error, job))
        while not self._front.has_ended(LOOK_SECONDS):
            seconds, insists = time.monotonic() - self._since, has_insisted()
            # A job whose calls are short ends by itself when the user insists.
            if insists and self._front.has_ended(LOOK_SECONDS):
                break
            if insists or seconds > WAIT_SECONDS:
                self.is_broken = True
                raise left(self._doing, seconds)
        error, self._error = self._error, None
        if error:
            raise error

    def run(self, name: str, alone: bool = False) -> None:
        """Runs an export in all threads, as a part of a job; `alone`: in thread 0 only."""
        self._doing, self._since = f"`{name}`", time.monotonic()
        self._instances[0].keep_traps()
        if alone or self._threads == 1:
            self._instances[0].call(name, alone=True)
        else:
            self._run_together(name)

    def close(self) -> None:
        _end([*self._members, *([self._front] if self._front else [])])
        self._front, self._members, self._instances = None, [], []

    def _open(self, code: bytes) -> None:
        module = compile_module(code)
        for number in range(self._threads):
            self._instances.append(
                Instance(module, self._pages, number, self._threads, self._memory)
            )

    def _keep_error(self, job: Job) -> None:
        try:
            job()
        except BaseException as error:
            self._error = error

    def _run_together(self, name: str) -> None:
        if not self._members:
            self._members = [self._start() for _ in self._instances[1:]]
        self._at_work = self._threads
        for member, instance in zip(self._members, self._instances[1:], strict=True):
            member.begin(partial(self._take_part, name, instance))
        self._take_part(name, self._instances[0])
        for member in self._members:
            member.wait()
        if self._failures:
            raise self._failures[0]

    def _start(self) -> _Member:
        """Others than thread 0 not before the first call: whoever reads parameters needs none."""
        member = _Member()
        # At the end of the program it may be at work, and ends with it.
        weakref.finalize(self, _end, (member,)).atexit = False
        return member

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
        self.is_broken = True
        code = bytes(wasmtime().wat2wasm(RELEASE))
        instance = Instance(compile_module(code), self._pages, memory=self._memory)
        while self._at_work:
            instance.call("release")
            time.sleep(PAUSE_SECONDS)


class _Member:
    """A thread that runs one job after the other. While it waits, it keeps no team alive."""

    def __init__(self) -> None:
        self._job: Job | None = None
        self._has_ended = False
        # Locks as signals, because they wake a thread fastest.
        self._begun, self._ended = threading.Lock(), threading.Lock()
        self._begun.acquire()
        self._ended.acquire()
        threading.Thread(target=self._serve, name="wgcc twin", daemon=True).start()

    def begin(self, job: Job) -> None:
        self._job = job
        self._begun.release()

    def end(self) -> None:
        """Ends the thread by giving it no job; may be called again."""
        if not self._has_ended:
            self._has_ended = True
            self._begun.release()

    def wait(self) -> None:
        self._ended.acquire()

    def has_ended(self, seconds: float) -> bool:
        """Waits at most so long for the job."""
        return self._ended.acquire(timeout=seconds)

    def _serve(self) -> None:
        while True:
            self._begun.acquire()
            job, self._job = self._job, None
            if job is None:
                return
            job()
            del job
            self._ended.release()


def left(doing: str, seconds: float) -> WgccError:
    if has_insisted():
        text = f"Ctrl-C was pressed so often that {doing} was not waited for"
        return WgccError("interrupted", text)
    return WgccError("time-out", f"the twin did not finish {doing} within {seconds:.0f} s")


def _end(members: Sequence[_Member]) -> None:
    for member in members:
        member.end()
