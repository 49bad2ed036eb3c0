//! Random workloads, from a seed.

use stagespan_model::Gate;

use super::script::{Config, Kind, Operation, Script};

/// SplitMix64. The generator must make the same workload of a seed for ever, so it depends on no
/// crate's idea of randomness.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From `low` to `high`, both included.
    fn between(&mut self, low: u32, high: u32) -> u32 {
        let span = u64::from(high.saturating_sub(low)) + 1;
        low + u32::try_from(self.next() % span).unwrap_or(0)
    }

    fn percent(&mut self, chance: u32) -> bool {
        self.between(1, 100) <= chance
    }
}

/// A kind of workload, in the order in which seeds go round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// AR behind a full-payload gate.
    ArFullPayload,
    /// AR behind an async_chunk gate.
    ArAsyncChunk,
    /// The same with an active-stream window.
    ArWindow,
    /// Generation behind an async_chunk gate.
    GenerationAsyncChunk,
    /// Generation behind a full-payload gate.
    GenerationFullPayload,
    /// A sender-only AR stage.
    SenderOnly,
    /// Stage 0.
    StageZero,
    /// Streaming sessions on AR and generation stages.
    Sessions,
    /// AR with prefill admission deferral.
    Deferral,
    /// Generation behind an async_chunk gate with a window.
    GenerationWindow,
}

impl Family {
    /// Every family.
    pub const ALL: [Self; 10] = [
        Self::ArFullPayload,
        Self::ArAsyncChunk,
        Self::ArWindow,
        Self::GenerationAsyncChunk,
        Self::GenerationFullPayload,
        Self::SenderOnly,
        Self::StageZero,
        Self::Sessions,
        Self::Deferral,
        Self::GenerationWindow,
    ];
}

/// The workload of a seed.
pub fn generate(seed: u64) -> Script {
    let family = Family::ALL[usize::try_from(seed % Family::ALL.len() as u64).unwrap_or(0)];
    let mut random = Random(seed);
    let config = config(family, &mut random);
    let sessions = family == Family::Sessions;
    let length = random.between(25, 70) as usize;
    let mut steps = vec![Vec::new(); length];
    let crowd = if random.percent(20) { 40 } else { 12 };
    for number in 0..random.between(1, crowd) {
        request(&config, sessions, &format!("r{number}"), &mut steps, &mut random);
    }
    Script { seed, family: format!("{family:?}"), config, steps }
}

fn config(family: Family, random: &mut Random) -> Config {
    use Family as F;
    let kind = match family {
        F::GenerationAsyncChunk | F::GenerationFullPayload | F::GenerationWindow => Kind::Generation,
        F::Sessions if random.percent(25) => Kind::Generation,
        _ => Kind::Ar,
    };
    let gate = match family {
        F::ArFullPayload | F::GenerationFullPayload => Gate::FullPayload,
        F::ArAsyncChunk | F::ArWindow | F::GenerationAsyncChunk | F::GenerationWindow | F::SenderOnly => {
            Gate::AsyncChunk
        }
        F::StageZero => [Gate::None, Gate::AsyncChunk][random.between(0, 1) as usize],
        F::Sessions if kind == Kind::Generation => Gate::AsyncChunk,
        F::Sessions | F::Deferral => {
            [Gate::None, Gate::AsyncChunk, Gate::FullPayload][random.between(0, 2) as usize]
        }
    };
    let block_size = [4, 8, 16][random.between(0, 2) as usize];
    let max_model_len = random.between(24, 96);
    let least_blocks = max_model_len.div_ceil(block_size);
    // Tight as often as not, so that KV blocks run out.
    let kv_blocks = least_blocks + if random.percent(60) { random.between(0, 4) } else { 100 };
    // Sessions also run where nothing comes in by chunks: on stage 0, and on a stage that only sends.
    let sends = family == F::Sessions && gate == Gate::AsyncChunk && kind == Kind::Ar && random.percent(40);
    let stage_id = match family {
        F::StageZero => 0,
        F::Sessions if gate == Gate::None || (sends && random.percent(50)) => 0,
        _ => 1,
    };
    let window = matches!(family, F::ArWindow | F::GenerationWindow);
    let deferral = family == F::Deferral;
    Config {
        kind,
        stage_id,
        gate,
        sender_only: family == F::SenderOnly || (sends && stage_id > 0),
        active_stream_window: if window { random.between(1, 4) } else { 0 },
        max_num_seqs: random.between(1, 5),
        token_budget: random.between(4, 64),
        kv_blocks,
        block_size,
        max_model_len,
        chunked_prefill: kind == Kind::Generation || random.percent(80),
        input_wait_timeout_steps: if random.percent(50) { random.between(4, 20) } else { 0 },
        admission_min_batch: if deferral { random.between(2, 4) } else { 0 },
        admission_max_wait_steps: if deferral { random.between(1, 8) } else { 0 },
        admission_min_running: if deferral { random.between(0, 2) } else { 0 },
    }
}

/// One request's operations, strewn over the steps.
fn request(config: &Config, session: bool, id: &str, steps: &mut [Vec<Operation>], random: &mut Random) {
    let id = id.to_owned();
    let last = u32::try_from(steps.len()).unwrap_or(1) - 1;
    let receives = config.stage_id > 0 && config.gate == Gate::AsyncChunk && !config.sender_only;
    let generation = config.kind == Kind::Generation;
    let arrival = random.between(0, last / 2);
    let longest = if config.chunked_prefill {
        config.max_model_len
    } else {
        config.max_model_len.min(config.token_budget)
    };
    let prompt_tokens = random.between(1, longest.saturating_sub(8).max(1));
    let resumable = session && random.percent(70);
    let mut at = |step: u32, operation| steps[step.min(last) as usize].push(operation);
    at(
        arrival,
        Operation::Add {
            id: id.clone(),
            prompt_tokens,
            max_tokens: random.between(1, 14),
            stop_after: if random.percent(30) { random.between(1, 10) } else { 0 },
            resumable,
        },
    );
    // An input may be there at once, come late, or never.
    let mut step = arrival + if random.percent(30) { 0 } else { random.between(0, 15) };
    if receives {
        let chunks = random.between(0, 7);
        for number in 1..=chunks {
            let finished = number == chunks && random.percent(85);
            let largest = (config.token_budget + 3).min(config.max_model_len);
            let tokens = if random.percent(10) { 0 } else { random.between(1, largest) };
            let tokens =
                if generation && random.percent(85) { tokens.min(config.token_budget) } else { tokens };
            let segment_finished = resumable && !finished && random.percent(40);
            at(step, Operation::Chunk { id: id.clone(), tokens, finished, segment_finished });
            step += if random.percent(40) { 0 } else { random.between(0, 6) };
        }
        if random.percent(4) {
            at(random.between(arrival, last), Operation::Fail { id: id.clone() });
        }
    } else if config.stage_id > 0 && config.gate == Gate::FullPayload && random.percent(88) {
        let resized = random.percent(25).then(|| random.between(1, longest.saturating_sub(8).max(1)));
        at(step, Operation::Payload { id: id.clone(), prompt_tokens: resized });
    }
    if resumable {
        let mut step = arrival;
        for _ in 0..random.between(0, 3) {
            step += random.between(0, 12);
            let update = Operation::Update {
                id: id.clone(),
                prompt_tokens: random.between(1, 12),
                max_tokens: random.between(1, 6),
            };
            if !generation {
                at(step, update);
            }
        }
        if random.percent(60) && !generation {
            at(step + random.between(0, 12), Operation::Close { id: id.clone() });
        }
    }
    if random.percent(15) {
        at(random.between(arrival, last), Operation::Abort { id });
    }
}
