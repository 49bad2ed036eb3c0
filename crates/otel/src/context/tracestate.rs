//! The `tracestate` header.

use std::fmt;
use std::sync::Arc;

/// Members that are passed on, at most.
const MEMBERS_MAX: usize = 32;
/// Bytes that are passed on, at most.
const BYTES_MAX: usize = 512;
/// The member of OpenTelemetry itself.
const OT: &str = "ot";

/// A sound, non-empty `tracestate`, in its own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceState(Arc<str>);

impl TraceState {
    /// The header's text, several of them joined with commas. `Ok(None)` where no member is in it.
    ///
    /// # Errors
    /// A member that isn't by the rules, a repeated key, more than 32 members or 512 bytes: then
    /// the whole is refused, but not the `traceparent` beside it.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, MalformedTraceState> {
        // Checked first, so that nothing long is ever walked.
        if text.len() > BYTES_MAX {
            return Err(MalformedTraceState);
        }
        let mut keys: Vec<&str> = Vec::new();
        let mut kept = String::new();
        for member in text.split(',').map(|m| m.trim_matches([' ', '\t'])).filter(|m| !m.is_empty()) {
            let (key, value) = member.split_once('=').ok_or(MalformedTraceState)?;
            if !is_key(key) || !is_value(value) || keys.contains(&key) || keys.len() == MEMBERS_MAX {
                return Err(MalformedTraceState);
            }
            keys.push(key);
            if !kept.is_empty() {
                kept.push(',');
            }
            kept.push_str(member);
        }
        Ok((!kept.is_empty()).then(|| Self(Arc::from(kept))))
    }

    /// Its text.
    pub(crate) fn as_arc(&self) -> &Arc<str> {
        &self.0
    }
}

/// A `tracestate` that isn't by the rules of W3C Trace Context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedTraceState;

/// `[a-z0-9][a-z0-9_*/-]{0,255}`, or `tenant@system` with at most 241 and 14 of them.
fn is_key(key: &str) -> bool {
    let part = |text: &str, max: usize, digit_first: bool| {
        let first = |b: u8| b.is_ascii_lowercase() || (digit_first && b.is_ascii_digit());
        let later =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-' | b'*' | b'/');
        (1..=max).contains(&text.len()) && text.bytes().next().is_some_and(first) && text.bytes().all(later)
    };
    match key.split_once('@') {
        None => part(key, 256, true),
        Some((tenant, system)) => part(tenant, 241, true) && part(system, 14, false),
    }
}

/// 1 to 256 printable ASCII characters without `,` and `=`; the last is no blank.
fn is_value(value: &str) -> bool {
    (1..=256).contains(&value.len())
        && value.bytes().all(|b| (0x20..=0x7e).contains(&b) && b != b',' && b != b'=')
        && !value.ends_with(' ')
}

/// What OpenTelemetry's consistent sampling says in the `ot` member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OtMember {
    /// The randomness, 14 hex digits.
    pub(crate) rv: Option<String>,
    /// The rejection threshold, 1 to 14 hex digits.
    pub(crate) th: Option<String>,
}

impl OtMember {
    /// The `ot` member of a tracestate; sub-keys that aren't by the rules count as absent.
    pub(crate) fn of(tracestate: Option<&str>) -> Self {
        let mut member = Self::default();
        let ot = tracestate
            .into_iter()
            .flat_map(|state| state.split(','))
            .find_map(|m| m.split_once('=').filter(|(key, _)| *key == OT).map(|(_, value)| value));
        for (key, value) in ot.into_iter().flat_map(|ot| ot.split(';')).filter_map(|sub| sub.split_once(':'))
        {
            let hex = value.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            match key {
                "rv" if hex && value.len() == 14 => member.rv = Some(value.to_owned()),
                "th" if hex && (1..=14).contains(&value.len()) => member.th = Some(value.to_owned()),
                _ => {}
            }
        }
        member
    }
}

impl fmt::Display for OtMember {
    /// The whole member, `ot=…`; nothing where it says nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut open = "ot=";
        for (key, value) in [("rv", &self.rv), ("th", &self.th)] {
            if let Some(value) = value {
                write!(f, "{open}{key}:{value}")?;
                open = ";";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_cases() {
        let many = |n: usize| (0..n).map(|i| format!("k{i}=v")).collect::<Vec<_>>().join(",");
        let kept = |text: &str| TraceState::parse(text).map(|s| s.map(|s| s.as_arc().to_string()));
        let table: &[(String, Result<Option<&str>, MalformedTraceState>)] = &[
            (
                "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE".into(),
                Ok(Some("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE")),
            ),
            ("a=1 , b=2,,\tc=3".into(), Ok(Some("a=1,b=2,c=3"))),
            ("fw529a3039@dt=FfD".into(), Ok(Some("fw529a3039@dt=FfD"))),
            ("0a=1".into(), Ok(Some("0a=1"))),
            (String::new(), Ok(None)),
            (" , ".into(), Ok(None)),
            ("a=1,a=2".into(), Err(MalformedTraceState)),
            ("A=1".into(), Err(MalformedTraceState)),
            ("a".into(), Err(MalformedTraceState)),
            ("a=".into(), Err(MalformedTraceState)),
            ("=1".into(), Err(MalformedTraceState)),
            ("a=b=c".into(), Err(MalformedTraceState)),
            ("a=é".into(), Err(MalformedTraceState)),
            ("a=1\r\nx: y".into(), Err(MalformedTraceState)),
            ("a@1b=1".into(), Err(MalformedTraceState)),
            ("a@b@c=1".into(), Err(MalformedTraceState)),
            (many(33), Err(MalformedTraceState)),
            (format!("a={}", "x".repeat(511)), Err(MalformedTraceState)),
        ];
        for (text, expected) in table {
            assert_eq!(kept(text), expected.map(|e| e.map(str::to_owned)), "{text:?}");
        }
        assert_eq!(kept(&many(32)), Ok(Some(many(32))));
    }

    #[test]
    fn the_ot_member() {
        let of = |text: &str| OtMember::of(Some(text)).to_string();
        assert_eq!(of("a=1,ot=rv:6e6d1a75832a2f;th:8;x:y,b=2"), "ot=rv:6e6d1a75832a2f;th:8");
        assert_eq!(of("ot=th:c"), "ot=th:c");
        assert_eq!(of("ot=rv:6e6d;th:xyz"), "");
        assert_eq!(of("xot=rv:6e6d1a75832a2f"), "");
        assert_eq!(OtMember::of(None), OtMember::default());
    }

    proptest! {
        #[test]
        fn what_is_kept_is_sound(text in "[ab@=, \t\u{e9}*]{0,40}") {
            if let Ok(Some(state)) = TraceState::parse(&text) {
                prop_assert_eq!(TraceState::parse(state.as_arc()), Ok(Some(state.clone())));
            }
        }
    }
}
