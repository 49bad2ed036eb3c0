//! The names of every attribute and scope, once.
//!
//! Integers are int64 nanoseconds, since collectors' numeric sampling policies read nothing else.
//! No attribute ever holds a prompt, a token or a payload.

/// Name of the instrumentation scope.
pub const SCOPE: &str = "stagespan";
/// Name of the live span that spans the whole request.
pub const REQUEST_SPAN: &str = "request";

/// The request's id as the client knows it; on every span.
pub const REQUEST_ID: &str = "stagespan.request.id";
/// The engine's own id of the request, where it differs.
pub const REQUEST_INTERNAL_ID: &str = "stagespan.request.internal_id";
/// The stage's number; on every stage span and its children.
pub const STAGE_ID: &str = "stagespan.stage.id";
/// The stage's name; on every stage span and its children.
pub const STAGE_NAME: &str = "stagespan.stage.name";
/// The stage's replica; on every stage span and its children.
pub const STAGE_REPLICA_ID: &str = "stagespan.stage.replica_id";

/// QUEUED to first SCHEDULED, in ns.
pub const QUEUED_NS: &str = "stagespan.queued_ns";
/// QUEUED to input ready, in ns.
pub const INPUT_WAIT_NS: &str = "stagespan.input_wait_ns";
/// Input ready to first SCHEDULED, in ns.
pub const READY_QUEUED_NS: &str = "stagespan.ready_queued_ns";
/// First SCHEDULED to first token, in ns.
pub const PREFILL_NS: &str = "stagespan.prefill_ns";
/// First token to last token, in ns.
pub const DECODE_NS: &str = "stagespan.decode_ns";
/// `measured`, or why the queued time isn't split.
pub const SPLIT: &str = "stagespan.split";
/// How the request ended on the stage.
pub const END: &str = "stagespan.end";
/// How often it was preempted.
pub const PREEMPTION_COUNT: &str = "stagespan.preemption.count";
/// The identity of the clock behind the span's times.
pub const CLOCK_DOMAIN: &str = "stagespan.clock.domain";
/// How far the anchor's two readings may lie apart, in ns.
pub const CLOCK_ANCHOR_UNCERTAINTY_NS: &str = "stagespan.clock.anchor_uncertainty_ns";
/// `events` or `hook`.
pub const CLOCK_SOURCE: &str = "stagespan.clock.source";
/// `false` on a stage that was forced into the trace of another clock.
pub const CLOCK_SHARED: &str = "stagespan.clock.shared";
/// `refused` on a stage that was to join the request's trace, but found its clock to be another.
pub const JOINED: &str = "stagespan.joined";
/// The kind of the stage's input gate.
pub const GATE: &str = "stagespan.gate";
/// Input tokens on this stage.
pub const TOKENS_INPUT: &str = "stagespan.tokens.input";
/// Output tokens of this stage.
pub const TOKENS_OUTPUT: &str = "stagespan.tokens.output";
/// The role of a companion request.
pub const COMPANION_ROLE: &str = "stagespan.companion.role";

/// The child's own length, in ns: 0 where it is exported 1 ns long.
pub const DURATION_NS: &str = "stagespan.duration_ns";
/// Time from the last gate pass that saw the request unready to the one that saw it ready, in ns.
pub const INPUT_WAIT_RESOLUTION_NS: &str = "stagespan.input_wait.resolution_ns";
/// `true` on a child that ended with its request.
pub const TRUNCATED: &str = "stagespan.truncated";

/// On a link: `request`, `upstream` or `stage`.
pub const LINK: &str = "stagespan.link";
/// On a linked span: the trace id of the `request` span.
pub const LINK_REQUEST: &str = "stagespan.link.request";
/// On a linked span: this and a stage's name make the attribute with that stage's trace id.
pub const LINK_PREFIX: &str = "stagespan.link.";

/// The kind of failure.
pub const ERROR_TYPE: &str = "error.type";
/// Input tokens of the request; on `request` alone, since back ends add them up as billed.
pub const GEN_AI_INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// Output tokens of the request; on `request` alone.
pub const GEN_AI_OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";

/// Resource: the service.
pub const SERVICE_NAME: &str = "service.name";
/// Resource: the process of the service.
pub const SERVICE_INSTANCE_ID: &str = "service.instance.id";
/// Resource: the version of the service.
pub const SERVICE_VERSION: &str = "service.version";
/// Resource: the machine.
pub const HOST_ID: &str = "host.id";
/// Resource: the machine's name.
pub const HOST_NAME: &str = "host.name";
/// Resource: the process.
pub const PROCESS_PID: &str = "process.pid";
/// Resource: `host.id` once more, since Jaeger before 2.15 compares only this.
pub const IP: &str = "ip";
/// Resource: the library that made the spans.
pub const TELEMETRY_SDK_NAME: &str = "telemetry.sdk.name";
/// Resource: its language.
pub const TELEMETRY_SDK_LANGUAGE: &str = "telemetry.sdk.language";
/// Resource: its version.
pub const TELEMETRY_SDK_VERSION: &str = "telemetry.sdk.version";
