//! Starting a pipeline: last stage first, so that each is told where the next one listens.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use stagespan_model::{ClockDomain, Gate, Position, StageIdentity, StageName};
use stagespan_output_processor::{Options, OutputProcessor};
use tokio::sync::{Semaphore, mpsc};

use super::child::{self, Door, ReadyStage};
use super::core::Core;
use super::error::OrchestratorError;
use super::link::StageLink;
use super::{CoreTask, INBOX_MESSAGES, Orchestrator, OrchestratorOptions, StageFacts};
use crate::message::Hello;
use crate::pipeline_file::{Common, Stage};
use crate::stage::{Downstream, StageSpec};
use crate::transport::{Address, Listener};

pub(super) async fn start(options: OrchestratorOptions) -> Result<Orchestrator, OrchestratorError> {
    let directory = tempfile::Builder::new()
        .prefix("stagespan-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir()
        .map_err(|e| OrchestratorError::Socket(format!("can't make a directory for the sockets: {e}")))?;
    let Common { connector } = options.pipeline.pipeline;
    let listener = Listener::bind(connector, directory.path(), "orchestrator")?;
    let orchestrator = listener.address()?;
    let door = Door::new(listener)?;
    let run_token = run_token()?;
    let observe = options.layer.is_on() || options.log_stats;

    let mut started: Vec<(Stage, StageName, ReadyStage)> = Vec::new();
    let mut downstream: Option<Downstream> = None;
    // A checked pipeline has at most 64 stages.
    for (stage_id, stage) in options.pipeline.stages.iter().enumerate().rev() {
        let name = stage_name(stage)?;
        let spec = StageSpec {
            stage: stage.clone(),
            stage_id: stage_id as u32,
            replica_id: 0,
            run_token: run_token.clone(),
            orchestrator: orchestrator.clone(),
            connector,
            socket_directory: directory.path().to_owned(),
            downstream: downstream.take(),
            observe,
            input_wait_timeout_ns: options.input_wait_timeout_ns,
        };
        let ready = child::start(&options.stage_command, &spec, &name, &door).await?;
        downstream = takes_input(stage, ready.hello.input.clone());
        started.push((stage.clone(), name, ready));
    }
    started.reverse();

    let (inbox_sender, inbox) = mpsc::channel(INBOX_MESSAGES);
    let mut links = Vec::new();
    let mut facts = Vec::new();
    for (stage, name, ready) in started {
        let identity = identity(&stage, name, &ready.hello)?;
        facts.push(StageFacts {
            name: identity.name.clone(),
            stage_id: identity.stage_id,
            pid: ready.hello.resource.process_pid,
            clock_domain: identity.clock_domain.clone(),
            position: identity.position,
        });
        let bad_anchor = || OrchestratorError::NotReady {
            stage: identity.name.clone(),
            cause: "the anchor of its clock is no instant".to_owned(),
        };
        let anchor = ready.hello.anchor.in_domain(&identity.clock_domain).ok_or_else(bad_anchor)?;
        let processor_options = Options {
            sink: options.layer.is_on().then(|| options.layer.sink()),
            // Kept in any case: a request's end is known by them.
            statistics: true,
            detail: options.layer.detail(),
            ..Options::default()
        };
        let processor = OutputProcessor::new(Arc::new(identity.clone()), anchor, processor_options)
            .map_err(|_| bad_anchor())?;
        links.push(StageLink::new(
            facts.len() - 1,
            stage,
            ready,
            processor,
            options.max_in_flight,
            &inbox_sender,
        ));
    }
    let names = facts.iter().map(|f| f.name.clone()).collect();
    let core = Core::new(options.clock, options.layer.clone(), links, names);
    Ok(Orchestrator {
        core: CoreTask(tokio::spawn(core.run(inbox))),
        inbox: inbox_sender,
        stages: facts,
        layer: options.layer,
        in_flight: Arc::new(Semaphore::new(options.max_in_flight)),
        _socket_directory: directory,
    })
}

/// How the stage before hands its output to this one, if it does.
fn takes_input(stage: &Stage, address: Option<Address>) -> Option<Downstream> {
    address.map(|address| Downstream { address, takes_chunks: stage.gate == Gate::AsyncChunk })
}

fn stage_name(stage: &Stage) -> Result<StageName, OrchestratorError> {
    // The pipeline file was checked; a Pipeline built by hand may hold any text.
    StageName::new(&stage.name).map_err(|e| OrchestratorError::Socket(e.to_string()))
}

fn identity(stage: &Stage, name: StageName, hello: &Hello) -> Result<StageIdentity, OrchestratorError> {
    let clock_domain =
        ClockDomain::from_id(&hello.clock_domain).ok_or_else(|| OrchestratorError::NotReady {
            stage: name.clone(),
            cause: format!("{:?} is no clock domain", hello.clock_domain),
        })?;
    let position = stage.position(hello.stage_id);
    Ok(StageIdentity {
        stage_id: hello.stage_id,
        name,
        replica_id: hello.replica_id,
        gate: if position == Position::First { Gate::None } else { stage.gate },
        position,
        clock_domain,
        resource: Arc::new(hello.resource.clone()),
    })
}

/// 128 random bits that a stranger on the sockets can't know.
fn run_token() -> Result<String, OrchestratorError> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|e| OrchestratorError::Socket(format!("the system gives no random bytes: {e}")))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}
