//! Spans grouped by resource until they are sent.

use opentelemetry_sdk::trace::SpanData;

use crate::resource::ResourceKey;

/// What the worker holds between queue and transport, by resource, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: Vec<(ResourceKey, Vec<SpanData>)>,
    len: usize,
}

impl Groups {
    /// Adds spans of one resource.
    pub(super) fn add(&mut self, resource: ResourceKey, spans: impl IntoIterator<Item = SpanData>) {
        let group = match self.groups.iter().position(|(key, _)| *key == resource) {
            Some(at) => &mut self.groups[at].1,
            None => {
                self.groups.push((resource, Vec::new()));
                let last = self.groups.len() - 1;
                &mut self.groups[last].1
            }
        };
        let before = group.len();
        group.extend(spans);
        self.len += group.len() - before;
    }

    /// Takes a group with at least `least` spans.
    pub(super) fn take_full(&mut self, least: usize) -> Option<(ResourceKey, Vec<SpanData>)> {
        let at = self.groups.iter().position(|(_, spans)| spans.len() >= least)?;
        let group = self.groups.remove(at);
        self.len -= group.1.len();
        Some(group)
    }

    /// Takes any group.
    pub(super) fn take_any(&mut self) -> Option<(ResourceKey, Vec<SpanData>)> {
        self.take_full(0)
    }

    /// How many spans there are in all.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}
