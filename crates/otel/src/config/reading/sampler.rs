//! OTEL_TRACES_SAMPLER and its argument.

use super::Reader;
use crate::config::finding::Source;
use crate::config::{RootSampler, Sampler};

const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";

pub(super) fn read(reader: &mut Reader<'_>) -> Sampler {
    let word = reader.word(SAMPLER);
    let source = word.as_ref().map_or(Source::Default, |_| Source::Variable(SAMPLER.to_owned()));
    let (sampler, source) = match word.as_deref() {
        None => (Sampler::default(), source),
        Some(word) => match parse(reader, word) {
            Some(sampler) => (sampler, source),
            None => {
                let remedy = "using parentbased_always_on; known are always_on, always_off, traceidratio \
                              and the same with parentbased_";
                reader.warn(SAMPLER, "names a sampler that there is not here", remedy);
                (Sampler::default(), Source::Default)
            }
        },
    };
    if !matches!(sampler.root, RootSampler::TraceIdRatio(_)) && reader.text(SAMPLER_ARG).is_some() {
        reader.warn(
            SAMPLER_ARG,
            "has no meaning with this sampler",
            "ignored; set OTEL_TRACES_SAMPLER=parentbased_traceidratio",
        );
    }
    reader.set("sampler", &sampler.to_string(), source);
    sampler
}

fn parse(reader: &mut Reader<'_>, word: &str) -> Option<Sampler> {
    let (root, parent_based) = match word.strip_prefix("parentbased_") {
        Some(root) => (root, true),
        None => (word, false),
    };
    let root = match root {
        "always_on" => RootSampler::AlwaysOn,
        "always_off" => RootSampler::AlwaysOff,
        "traceidratio" => RootSampler::TraceIdRatio(ratio(reader)),
        _ => return None,
    };
    Some(Sampler { root, parent_based })
}

/// A share in 0..=1. An invalid one counts as unset, which is 1.
fn ratio(reader: &mut Reader<'_>) -> f64 {
    let Some(text) = reader.text(SAMPLER_ARG) else { return 1.0 };
    match text.parse::<f64>() {
        // The range holds no NaN.
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => ratio,
        _ => {
            reader.warn(SAMPLER_ARG, "is not a number in [0, 1]", "using 1.0");
            1.0
        }
    }
}
