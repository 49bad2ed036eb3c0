//! Bytes as a story: three bytes are one step, so that a corpus can be written by hand.

use stagespan_model::{
    ClockDomain, DomainTag, End, Instant, Position, TimelineEvent, instant::INSTANT_MAX_NS,
};

/// One step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// A request is taken in.
    Begin { position: Position, queued: Instant },
    /// Something is told of the `whom`th request, which may have ended.
    Event { whom: usize, event: TimelineEvent },
    /// The `whom`th request ends, perhaps again.
    End { whom: usize, at: Instant, end: End },
    /// Something is asked of a made-up handle.
    Stranger { bits: u64 },
}

#[derive(Debug)]
pub(crate) struct Story {
    pub(crate) ops: Vec<Op>,
}

impl Story {
    /// Steps of three bytes: what, whom (from 0xe0 on on another clock), and a number, which is a time or more of it.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let [stage, other] = ["stage", "other"].map(|id| ClockDomain::from_id(id).unwrap().tag());
        let mut now_ns = 1_000;
        let ops = bytes.chunks_exact(3).map(|step| {
            let [what, whom, number] = [step[0], step[1], step[2]];
            let clock = if whom < 0xe0 { stage } else { other };
            let whom = usize::from(whom % 0x20);
            match what % 10 {
                0 => {
                    let position = [Position::Gated, Position::Ungated, Position::First][whom % 3];
                    Op::Begin { position, queued: time(&mut now_ns, number, clock) }
                }
                7 => Op::Event { whom, event: TimelineEvent::InvalidTime },
                8 => {
                    let end = End::ALL[usize::from(number) % End::ALL.len()];
                    Op::End { whom, at: time(&mut now_ns, number, clock), end }
                }
                9 => Op::Stranger { bits: (u64::from(number) << 32) | whom as u64 },
                kind => {
                    let at = time(&mut now_ns, number, clock);
                    let event = match kind {
                        1 => TimelineEvent::Queued(at),
                        2 => {
                            let resolution_ns = (number % 4 != 3).then_some(u64::from(number));
                            TimelineEvent::InputReady { at, resolution_ns }
                        }
                        3 => TimelineEvent::Scheduled(at),
                        4 => TimelineEvent::Preempted(at),
                        // 0 tokens are an output too; so many that the sum does not fit are possible.
                        5 => TimelineEvent::Tokens { at, count: u32::from(number % 4) },
                        _ => TimelineEvent::Tokens { at, count: u32::MAX / 2 + u32::from(number) },
                    };
                    Op::Event { whom, event }
                }
            }
        });
        Self { ops: ops.collect() }
    }
}

/// Most often a little later than before or just as late, sometimes earlier, seldom at the ends of what an instant can be.
fn time(now_ns: &mut u64, number: u8, clock: DomainTag) -> Instant {
    let ns = match number {
        0..0xc0 => {
            *now_ns += u64::from(number % 16);
            *now_ns
        }
        0xc0..0xf8 => *now_ns - u64::from(number - 0xc0),
        0xf8..0xfc => 1,
        0xfc.. => INSTANT_MAX_NS - u64::from(number - 0xfc),
    };
    Instant::from_ns(ns, clock).unwrap()
}
