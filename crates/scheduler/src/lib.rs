//! Deterministic stage schedulers with input gates.
//!
//! A [`Scheduler`] decides, step by step, which requests of a stage run: vLLM-Omni's AR or its
//! generation scheduler, behind an async_chunk gate, a full-payload gate or none. On the way it
//! takes the one stamp that splits a request's queued time: the step that first saw its input
//! ready.
//!
//! It is a value, and every call is `(state, event, now) → (state, effects)`: no thread, no lock,
//! no sleep, no I/O. Deliveries are method calls; time is the [`Clock`](stagespan_model::Clock)
//! passed in. The model itself is the caller's.
//!
//! ```
//! use stagespan_model::{Clock, Gate, ManualClock};
//! use stagespan_scheduler::{NewRequest, Payload, Sampled, Scheduler, SchedulerConfig, SchedulerKind, Step};
//!
//! let clock = ManualClock::new(5_000_000_000);
//! let mut scheduler = Scheduler::new(SchedulerConfig::new(SchedulerKind::Ar, 1, Gate::FullPayload))?;
//! let request = NewRequest { prompt_tokens: 8, max_tokens: 1, ..NewRequest::default() };
//! let handle = scheduler.add_request(request, &clock); // QUEUED
//!
//! let Step::Run(plan) = scheduler.step(&clock) else { unreachable!("only coalescing waits") };
//! assert!(plan.is_empty(), "held at the gate");
//! scheduler.update(plan, &[], &clock);
//!
//! clock.advance_ns(86_000_000_000); // the upstream stage builds its kernels
//! scheduler.deliver_payload(handle, Payload::default());
//! let Step::Run(plan) = scheduler.step(&clock) else { unreachable!("only coalescing waits") };
//! assert_eq!((plan.scheduled[0].handle, plan.scheduled[0].tokens), (handle, 8));
//! scheduler.update(plan, &[Sampled { handle, token_ids: vec![7], has_payload: false }], &clock);
//!
//! let output = &scheduler.take_outputs()[0];
//! assert!(output.is_last());
//! assert_eq!(output.input_ready.map(|ready| ready.at), Some(clock.now()));
//! # Ok::<(), stagespan_scheduler::ConfigError>(())
//! ```
//!
//! # A step
//!
//! | | AR | generation |
//! |---|---|---|
//! | reads the clock | | for the stamp and for SCHEDULED |
//! | gates | let through what has its input, hold what has not, end what waited too long | the same |
//! | stamp | reads the clock | with the time read first |
//! | schedule | reads the clock for SCHEDULED; running first, then waiting | whole inputs; where none goes that way and the stage takes no chunks, vLLM's own schedule with a later reading |
//!
//! So an AR request that runs in the step its input came in has a `ready_queued` of the time
//! between two readings, and a generation request one of exactly 0. With
//! [`observe`](SchedulerConfig::observe) off no event is recorded and none of these readings is
//! taken; the gate's timeout and the admission deferral read the clock for themselves, where they
//! are on.
//!
//! # What a step costs
//!
//! Requests that run, plus requests for which something changed: never requests that wait. What a
//! gate holds is in no list that a step walks; the stamp goes to the requests that the pass let
//! through (`stamp`), and timeouts stand in the order of their deadlines (`gate::deadline`).
//!
//! # How requests end
//!
//! Every end, an abort before the first step included, queues one last [`StageOutput`] with the
//! request's pending events and a [`Finished`] that says how. After it the [`RequestHandle`] names
//! nothing, for ever; calls with it are counted in [`Ignored`].
//!
//! # Where the behaviour comes from
//!
//! It is vLLM-Omni 0.32's with its first model runner, quirks included: which queue a request goes
//! to, who is preempted, in which order released requests stand. KV blocks are counted, not
//! addressed; prefix caching, speculative decoding, LoRA and encoder inputs are not here.

mod admission;
mod coalescing;
mod config;
mod gate;
mod generation;
mod ignored;
mod kv;
mod list;
mod output;
mod request;
mod schedule;
mod scheduler;
mod session;
mod stamp;
mod state;
mod step;
mod update;
mod wait_queue;

pub use config::{
    Coalescing, CoalescingPolicy, ConfigError, INPUT_WAIT_TIMEOUT_DEFAULT_NS, PrefillAdmission,
    SchedulerConfig, SchedulerKind, parse_input_wait_timeout,
};
pub use ignored::Ignored;
pub use output::{Finished, InputReady, Sampled, Scheduled, StageOutput, Step, StepPlan, StopReason};
pub use request::{Chunk, NewRequest, Payload, RequestHandle, StreamingUpdate};
pub use scheduler::{Counts, Scheduler};
