"""The native module of the package `stagespan`. Instants are seconds of `time.monotonic()`."""

import os
from collections.abc import Mapping, Sequence
from typing import Literal, final

VERSION: str

Gate = Literal["none", "async_chunk", "full_payload"]
ClockSource = Literal["events", "hook"]
Door = Literal["http", "call"]
End = Literal["stop", "length", "aborted", "timeout", "connector_failure", "error", "rejected", "shutdown"]
ErrorType = Literal[
    "input_timeout", "connector_failure", "rejected", "shutdown", "engine_error", "aborted", "stage_lost"
]

@final
class Stage:
    """One stage of a pipeline, as its scheduler sees it.

    `enqueue` answers a handle for the other calls; 0 means that the request is not traced, and every
    call with it does nothing. `at` is an instant of this process's `time.monotonic()`, by default the
    present. No call blocks, and none raises for what it is told in the wrong order: that is ignored and
    counted in `stagespan.stats()`.
    """

    def __new__(
        cls,
        name: str,
        stage_id: int,
        *,
        replica_id: int = 0,
        gate: Gate = "none",
        sender_only: bool = False,
        clock_source: ClockSource = "hook",
        engine_version: str | None = None,
    ) -> Stage:
        """A stage called `name`: 1 to 64 of the characters a-z 0-9 _ . -

        `gate` is what holds a request until its input is there; a stage that only sends chunks
        (`sender_only`) is not held by `async_chunk`. Raises `ValueError` for a name or a word that is
        none.
        """

    def enqueue(
        self,
        request_id: str,
        *,
        at: float | None = None,
        headers: Mapping[str, str] | None = None,
        internal_id: str | None = None,
        tokens_input: int = 0,
        companion_role: str | None = None,
    ) -> int:
        """QUEUED: the stage's scheduler took the request in. Answers its handle.

        `headers` are those that `RequestSpan.assign` gave for this stage, as they came with the submit
        message; without them the stage's span is the root of a trace of its own. `internal_id` is the
        engine's own id of the request, where it differs.
        """

    def input_ready(self, handle: int, at: float | None = None, unready_at: float | None = None) -> None:
        """The scheduler step that saw the request's input ready. The first one counts.

        `unready_at` is when the step before that, which still saw it unready, looked: the distance is
        the stamp's resolution.
        """

    def scheduled(self, handle: int, at: float | None = None) -> None:
        """SCHEDULED: the scheduler gave the request its first tokens of a run. The first one counts."""

    def preempted(self, handle: int, at: float | None = None) -> None:
        """PREEMPTED: the scheduler took the request's memory away."""

    def tokens(self, handle: int, count: int = 1, at: float | None = None) -> None:
        """An output with `count` new tokens.

        The first and the last output count; those between may be told of by one call, with the last.
        """

    def finish(
        self, handle: int, end: End = "stop", at: float | None = None, tokens_input: int | None = None
    ) -> bool:
        """The request's end on this stage. Answers whether it was in flight.

        `tokens_input` is for a stage whose input has grown since `enqueue`.
        """

    def finish_all(self) -> int:
        """Ends every request in flight: the stage shuts down. Answers how many there were."""

    @property
    def live(self) -> int:
        """How many requests are in flight."""

    @property
    def name(self) -> str:
        """The stage's name."""

    @property
    def is_gated(self) -> bool:
        """Whether the stage has a gate whose passing is input readiness."""

@final
class RequestSpan:
    """The span of one request, from its door until `end()` or until it is collected."""

    def assign(
        self,
        stage: str,
        *,
        pid: int | None = None,
        clock_domain: str | None = None,
        upstreams: Sequence[str] = (),
        companion_role: str | None = None,
    ) -> dict[str, str]:
        """The ids and the context of a stage's span, as the headers of its submit message.

        Call it once per stage, upstream stages first. `pid` is the stage's process on this machine,
        `clock_domain` what a remote one said of its clock (`stagespan.clock_domain()` there); without
        either, its clock counts as another. Empty while tracing is off or the span has ended.
        """

    def fail(self, error_type: ErrorType, message: str) -> None:
        """Marks the request as failed. The message is for people and must hold nothing of the payload."""

    def usage(self, input_tokens: int, output_tokens: int) -> None:
        """The tokens that the request took and gave, as they would be billed."""

    def end(self) -> None:
        """Ends the request now. A second call does nothing."""

    @property
    def trace_id(self) -> str | None:
        """The request's trace id in hex; `None` while tracing is off or after `end()`."""

    @property
    def is_sampled(self) -> bool:
        """Whether the request and its stages are exported."""

def open_request(
    request_id: str, headers: Mapping[str, str] | None = None, *, door: Door = "call"
) -> RequestSpan:
    """Opens the span of a request that has just come in: a child of the caller's context in `headers`,
    if there is one. Names of headers count in any case of letters; `stagespan-*` ones are ignored."""

def configure(
    *, json_file: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None
) -> bool:
    """Starts tracing by hand instead of by the environment: into a file of OTLP JSON, or with variables
    of one's own. Whatever ran before is flushed and ended. Answers whether tracing is on."""

def is_on() -> bool:
    """Whether tracing is on in this process."""

def output() -> str:
    """Where the spans go: `off`, `console`, a file or the receiver's address."""

def clock_domain(pid: int | None = None) -> str | None:
    """The identity of the clock that `time.monotonic()` reads in this process, or in process `pid` of
    this machine; `None` where it can't be told."""

def flush(timeout_s: float = 2.0) -> bool:
    """Waits until everything recorded before the call is exported, at most `timeout_s` seconds.
    Answers whether all of it was."""

def shutdown(timeout_s: float = 2.0) -> bool:
    """Exports what there is, at most `timeout_s` seconds, and ends tracing in this process. Answers
    whether all of it was exported. A second call is harmless."""

def stats() -> str:
    """What became of every span of this process, as a JSON object."""

def end_of(finish_reason: int, stop_reason: object = None) -> End:
    """The end that vLLM's finish reason and stop reason tell of."""

def count_unknown(requests: int) -> None:
    """Counts requests that were to be aborted, and that no scheduler knew."""
