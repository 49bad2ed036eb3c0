//! A batch of outputs: what a stage's engine sends for one step.

use crate::error::DecodeError;
use crate::layout::BatchLayout;
use crate::output::EngineCoreOutput;
use crate::raw::RawValue;
use crate::reader::Reader;
use crate::writer::Writer;

/// The outputs of one step of a stage's engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineCoreOutputs {
    /// Which engine of the stage.
    pub engine_index: u64,
    /// One output for each request that has something to say.
    pub outputs: Vec<EngineCoreOutput>,
    /// The scheduler's own statistics, passed on untouched.
    pub scheduler_stats: RawValue,
    /// The step's time, in seconds of the stage's `time.monotonic()`. 0 is "never set".
    pub timestamp: f64,
    /// The answer to a utility call, passed on untouched.
    pub utility_output: RawValue,
    /// The ids of requests that have finished, with or without an output here.
    pub finished_requests: Option<Vec<String>>,
    /// A data-parallel wave that is over.
    pub wave_complete: Option<u64>,
    /// A data-parallel wave to start.
    pub start_wave: Option<u64>,
    /// The version of the weights of this step, passed on untouched.
    pub weight_version: RawValue,
    /// The field order it came in, or goes out in.
    pub layout: BatchLayout,
}

impl EngineCoreOutputs {
    /// Decodes a batch, of whichever version.
    ///
    /// # Errors
    /// Names the field and where it is. Fields after the known ones are skipped.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        const BATCH: &str = "batch";
        let mut reader = Reader::new(message, BATCH)?;
        let len = reader.array_len(BATCH)?;
        let layout = BatchLayout::of_len(len);
        let mut batch = Self { layout, ..Self::default() };
        for place in 0..len {
            match place {
                0 => batch.engine_index = reader.u64("engine_index")?,
                1 => batch.outputs = read_outputs(&mut reader)?,
                2 => batch.scheduler_stats = reader.raw("scheduler_stats")?,
                3 => batch.timestamp = reader.f64("timestamp")?,
                4 => batch.utility_output = reader.raw("utility_output")?,
                5 => batch.finished_requests = reader.optional("finished_requests", read_ids)?,
                6 => batch.wave_complete = reader.optional("wave_complete", Reader::u64)?,
                7 => batch.start_wave = reader.optional("start_wave", Reader::u64)?,
                8 => batch.weight_version = reader.raw("weight_version")?,
                _ => reader.skip(BATCH)?,
            }
        }
        reader.end(BATCH)?;
        Ok(batch)
    }

    /// Encodes the batch, as msgspec would.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.array_len(self.layout.len());
        writer.u64(self.engine_index);
        writer.array_len(self.outputs.len());
        for output in &self.outputs {
            output.write(&mut writer);
        }
        writer.raw(&self.scheduler_stats);
        writer.f64(self.timestamp);
        writer.raw(&self.utility_output);
        writer.optional(self.finished_requests.as_deref(), |w, ids| {
            w.array_len(ids.len());
            ids.iter().for_each(|id| w.text(id));
        });
        writer.optional(self.wave_complete, Writer::u64);
        writer.optional(self.start_wave, Writer::u64);
        if self.layout == BatchLayout::Vllm032 {
            writer.raw(&self.weight_version);
        }
        writer.finish()
    }
}

fn read_outputs(reader: &mut Reader<'_>) -> Result<Vec<EngineCoreOutput>, DecodeError> {
    let len = reader.bounded_len("outputs")?;
    let mut outputs = Vec::with_capacity(len.min(reader.remaining() / EngineCoreOutput::MIN_BYTES));
    for _ in 0..len {
        outputs.push(EngineCoreOutput::read(reader)?);
    }
    Ok(outputs)
}

fn read_ids(reader: &mut Reader<'_>, field: &'static str) -> Result<Vec<String>, DecodeError> {
    let len = reader.bounded_len(field)?;
    let mut ids = Vec::with_capacity(len);
    for _ in 0..len {
        ids.push(reader.owned_text(field)?);
    }
    Ok(ids)
}
