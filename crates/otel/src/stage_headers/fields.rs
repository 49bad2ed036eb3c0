//! The values of `stagespan-span` and `stagespan-upstream`.

use stagespan_model::{IdError, Placement, SpanId, SpanRef, StageName, StageNameError, TraceId, Upstream};

/// Upstream stages of one stage, at most.
const UPSTREAMS_MAX: usize = 32;

/// What is wrong with the value of one of our headers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// The header is there more than once.
    #[error("it is there more than once")]
    Repeated,
    /// Not of the header's form.
    #[error("it is not of its form")]
    Shape,
    /// A trace or span id that is refused.
    #[error("an id in it is refused: {0}")]
    Id(#[from] IdError),
    /// A stage name that is refused.
    #[error("{0}")]
    StageName(#[from] StageNameError),
    /// A placement other than own, same and forced.
    #[error("its placement is none of own, same, forced")]
    Placement,
    /// More than 32 upstream stages.
    #[error("it names more than {UPSTREAMS_MAX} upstream stages")]
    TooMany,
    /// A number that isn't plain decimal digits, or is out of range.
    #[error("a number in it is not plain digits in range")]
    Number,
    /// A clock domain or host id with characters that they never have.
    #[error("its domain or host id is refused")]
    Identity,
}

/// `<trace>-<span>`, and what follows the span after another `-`.
fn ids(text: &str) -> Result<(TraceId, SpanId, Option<&str>), FieldError> {
    let mut parts = text.splitn(3, '-');
    let (Some(trace), Some(span)) = (parts.next(), parts.next()) else { return Err(FieldError::Shape) };
    Ok((TraceId::from_hex(trace)?, SpanId::from_hex(span)?, parts.next()))
}

/// `<trace>-<span>-<flags>;own|same|forced`
pub(super) fn parse_span(text: &str) -> Result<(SpanRef, Placement), FieldError> {
    let (ids_and_flags, placement) = text.split_once(';').ok_or(FieldError::Shape)?;
    let (trace_id, span_id, flags) = ids(ids_and_flags)?;
    let flags = match flags {
        Some("00") => 0,
        Some("01") => 1,
        Some("02") => 2,
        Some("03") => 3,
        _ => return Err(FieldError::Shape),
    };
    let placement = Placement::from_word(placement).ok_or(FieldError::Placement)?;
    Ok((SpanRef { trace_id, span_id, flags }, placement))
}

pub(super) fn format_span(span: &SpanRef, placement: Placement) -> String {
    let SpanRef { trace_id, span_id, flags } = span;
    format!("{trace_id}-{span_id}-{flags:02x};{}", placement.as_str())
}

/// `<stage>=<trace>-<span>[,…]`; the spans share the stage's sampling decision.
pub(super) fn parse_upstreams(text: &str, flags: u8) -> Result<Vec<Upstream>, FieldError> {
    let mut upstreams = Vec::new();
    for item in text.split(',') {
        if upstreams.len() == UPSTREAMS_MAX {
            return Err(FieldError::TooMany);
        }
        let (stage, span) = item.split_once('=').ok_or(FieldError::Shape)?;
        let (trace_id, span_id, None) = ids(span)? else { return Err(FieldError::Shape) };
        upstreams
            .push(Upstream { stage: StageName::new(stage)?, span: SpanRef { trace_id, span_id, flags } });
    }
    Ok(upstreams)
}

pub(super) fn format_upstreams(upstreams: &[Upstream]) -> String {
    let items: Vec<_> =
        upstreams.iter().map(|u| format!("{}={}-{}", u.stage, u.span.trace_id, u.span.span_id)).collect();
    items.join(",")
}
