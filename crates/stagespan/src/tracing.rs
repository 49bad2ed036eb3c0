//! Tracing of one process.

use std::sync::Arc;
use std::time::Duration;

use stagespan_model::{Clock, StageNameError, SystemClock};
use stagespan_otel::{
    Account, AnchorSource, Config, Door, Environment, FlushError, Layer, RequestOpening, RequestSpan,
};

use crate::stage::{StageOptions, StageTracer};

/// Tracing of one process: made once, cloned freely.
#[derive(Clone)]
pub struct Tracing {
    layer: Layer,
    clock: Arc<dyn Clock>,
    anchors: AnchorSource,
    environment: Arc<Environment>,
}

impl Tracing {
    /// Tracing as the process's environment asks for it. A variable that can't be used is reported
    /// on stderr and as a `tracing` event, and turns tracing off; it never stops the process.
    pub fn from_environment() -> Self {
        let environment = Environment::of_this_process();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let layer = Layer::start_or_off(Config::from_environment(&environment), Arc::clone(&clock));
        Self::new(layer, clock, environment)
    }

    /// Tracing by a layer that was configured by hand, on a clock that is passed in.
    pub fn new(layer: Layer, clock: Arc<dyn Clock>, environment: Environment) -> Self {
        let anchors = AnchorSource::new(Arc::clone(&clock));
        Self { layer, clock, anchors, environment: Arc::new(environment) }
    }

    /// Tracing that does nothing.
    pub fn off() -> Self {
        Self::new(Layer::off(), Arc::new(SystemClock::new()), Environment::default())
    }

    /// Whether anything is traced.
    pub fn is_on(&self) -> bool {
        self.layer.is_on()
    }

    /// The layer below, for whatever this crate does not say.
    pub fn layer(&self) -> &Layer {
        &self.layer
    }

    /// Opens the `request` span at the front end's door, under the caller's context. Header names
    /// are of any case; a client's `stagespan-*` headers are ignored.
    pub fn request<'h>(
        &self,
        request_id: &str,
        headers: impl IntoIterator<Item = (&'h str, &'h str)>,
        door: Door,
    ) -> RequestSpan {
        self.layer.open_request(RequestOpening { request_id, headers, door })
    }

    /// A stage that this process runs.
    ///
    /// # Errors
    /// A name with other characters than `[a-z0-9_.-]`, empty, or longer than 64 bytes.
    pub fn stage(&self, options: StageOptions<'_>) -> Result<StageTracer, StageNameError> {
        StageTracer::new(&self.layer, &self.clock, &self.anchors, &self.environment, options)
    }

    /// What became of every span so far.
    pub fn stats(&self) -> Account {
        self.layer.stats()
    }

    /// Waits until everything produced before the call is exported, `within` at the longest.
    ///
    /// # Errors
    /// What could not be exported, in time or at all.
    pub fn flush(&self, within: Duration) -> Result<(), FlushError> {
        self.layer.flush(within)
    }

    /// Exports what there is, `within` at the longest, and ends tracing.
    ///
    /// # Errors
    /// What could not be exported, in time or at all.
    pub fn shutdown(&self, within: Duration) -> Result<(), FlushError> {
        self.layer.shutdown(within)
    }
}
