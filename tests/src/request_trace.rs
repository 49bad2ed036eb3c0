//! The spans of one request, put together again from however many traces they are in.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};

use crate::span::Span;

/// The instrumentation scope of every span of ours.
pub const SCOPE: &str = "stagespan";

/// A request: its `request` span and what each stage says of it.
#[derive(Debug, Clone)]
pub struct RequestTrace {
    /// The id as the client knows it.
    pub id: String,
    /// The `request` span.
    pub request: Span,
    /// The stages that have a span, by stage number.
    pub stages: Vec<StageTrace>,
}

/// A stage's span and its children.
#[derive(Debug, Clone)]
pub struct StageTrace {
    /// `stage <name>`.
    pub span: Span,
    /// Its children, by start.
    pub children: Vec<Span>,
}

impl RequestTrace {
    /// What the stage of this name says, if it says anything.
    #[must_use]
    pub fn stage(&self, name: &str) -> Option<&StageTrace> {
        self.stages.iter().find(|stage| stage.name() == name)
    }

    /// Every span of the request.
    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        std::iter::once(&self.request).chain(self.stages.iter().flat_map(StageTrace::spans))
    }
}

impl StageTrace {
    /// The stage's name; empty if its span has none.
    #[must_use]
    pub fn name(&self) -> &str {
        self.span.str("stagespan.stage.name").unwrap_or_default()
    }

    /// The child of this name, if there is exactly one.
    #[must_use]
    pub fn child(&self, name: &str) -> Option<&Span> {
        let mut found = self.children.iter().filter(|child| child.name == name);
        found.next().filter(|_| found.next().is_none())
    }

    /// The stage's span and its children.
    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        std::iter::once(&self.span).chain(&self.children)
    }
}

/// Puts the spans of ours together by request id. Others, such as the caller's, are left out.
///
/// # Errors
/// If a span of ours has no place: no request id, no `request` span, two of those, a stage twice, a child whose parent is
/// no stage span of its trace.
pub fn group(spans: &[Span]) -> anyhow::Result<Vec<RequestTrace>> {
    let mut by_id: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for span in spans.iter().filter(|span| span.scope == SCOPE) {
        let id = span.str("stagespan.request.id").with_context(|| format!("no request id on {span:?}"))?;
        by_id.entry(id).or_default().push(span);
    }
    by_id
        .into_iter()
        .map(|(id, spans)| {
            group_request(id, spans).with_context(|| format!("in the spans of request {id:?}"))
        })
        .collect()
}

fn group_request(id: &str, spans: Vec<&Span>) -> anyhow::Result<RequestTrace> {
    let (mut requests, mut stages, mut children) = (Vec::new(), Vec::<StageTrace>::new(), Vec::new());
    for span in spans {
        match span.name.split_once(' ') {
            Some(("stage", _)) => stages.push(StageTrace { span: span.clone(), children: Vec::new() }),
            None if span.name == "request" => requests.push(span.clone()),
            _ => children.push(span),
        }
    }
    for child in children {
        let parent = stages.iter_mut().find(|stage| {
            stage.span.trace_id == child.trace_id && Some(&stage.span.span_id) == child.parent.as_ref()
        });
        parent.with_context(|| format!("no stage is the parent of {child:?}"))?.children.push(child.clone());
    }
    for stage in &mut stages {
        // Of two that begin together the shorter is a measured zero, which comes first.
        stage.children.sort_by_key(|child| (child.start_ns, child.end_ns));
    }
    stages.sort_by_key(|stage| stage.span.int("stagespan.stage.id"));
    let twice = stages.windows(2).find(|pair| pair[0].name() == pair[1].name());
    ensure!(twice.is_none(), "a stage has two spans: {twice:?}");
    let Ok([request]) = <[Span; 1]>::try_from(requests) else { bail!("not exactly one `request` span") };
    Ok(RequestTrace { id: id.to_owned(), request, stages })
}
