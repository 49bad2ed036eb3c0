//! What both protocols need to know of a receiver, checked before anything is sent.

use std::time::Duration;

use ::http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::Url;
use rustls::ClientConfig;

use super::tls;
use super::transport::TransportError;
use crate::config::{Compression, MASK, OtlpOutput, Secret};

/// How we name ourselves to receivers.
pub(super) const USER_AGENT: &str = concat!("Stagespan-OTLP-Exporter-Rust/", env!("CARGO_PKG_VERSION"));

/// The longest that a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// A receiver whose address, headers and files have been checked.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) compression: Compression,
    pub(super) tls: ClientConfig,
    pub(super) connect_timeout: Duration,
    pub(super) secrets: Secrets,
}

impl Receiver {
    /// # Errors
    /// An address that isn't `http(s)://` with a host, a header that HTTP doesn't allow, or a file
    /// that can't be read.
    pub(super) fn check(output: &OtlpOutput) -> Result<Self, TransportError> {
        let refuse = |why: String| Err(TransportError::Receiver(why));
        let mut url = match Url::parse(&output.endpoint) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => url,
            // The address is left out: it may hold a password.
            _ => return refuse("the receiver's address is not http://host… or https://host…".to_owned()),
        };
        let mut headers = HeaderMap::new();
        let mut secrets = Secrets::of(&output.headers);
        for (name, value) in &output.headers {
            let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
                return refuse(format!("{name:?} can't be the name of an export header"));
            };
            let Ok(mut value) = HeaderValue::from_str(value.reveal()) else {
                return refuse(format!(
                    "the value of export header {name:?} has characters that no header may have"
                ));
            };
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        secrets.add(url.password().unwrap_or_default());
        Ok(Self {
            tls: tls::client_config(url.scheme() == "https", &output.tls)?,
            headers,
            compression: output.compression,
            // Shorter than an attempt, so that what fails is the connection, and the batch is known
            // not to have been sent.
            connect_timeout: output.timeout.map_or(CONNECT_MAX, |timeout| (timeout / 2).min(CONNECT_MAX)),
            secrets,
            url: {
                url.set_fragment(None);
                url
            },
        })
    }
}

/// Texts that a receiver may repeat in its answer, and that no message of ours may.
#[derive(Clone, Default)]
pub(super) struct Secrets(Vec<String>);

/// Shorter ones would hide half of any sentence.
const SECRET_MIN_CHARS: usize = 4;

/// What is shown of a receiver's words.
const WORDS_MAX_CHARS: usize = 200;

impl Secrets {
    fn of(headers: &[(String, Secret)]) -> Self {
        let mut secrets = Self::default();
        for (_, value) in headers {
            secrets.add(value.reveal());
            // `Bearer <token>`: a receiver may repeat the token alone.
            for word in value.reveal().split_whitespace() {
                secrets.add(word);
            }
        }
        // The longest first, so that none is cut in two by a part of itself.
        secrets.0.sort_by_key(|text| std::cmp::Reverse(text.len()));
        secrets
    }

    fn add(&mut self, text: &str) {
        if text.len() >= SECRET_MIN_CHARS {
            self.0.push(text.to_owned());
        }
    }

    /// A receiver's words, made safe for a log: without our secrets, without control characters,
    /// and not too long.
    pub(super) fn safe(&self, words: &str) -> String {
        let mut words = words.to_owned();
        for secret in &self.0 {
            words = words.replace(secret.as_str(), MASK);
        }
        words.chars().filter(|c| !c.is_control()).take(WORDS_MAX_CHARS).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receivers_words_are_made_safe() {
        let secrets = Secrets::of(&[
            ("authorization".to_owned(), Secret::new("Bearer hunter2")),
            ("x-tenant".to_owned(), Secret::new("a")),
        ]);
        assert_eq!(secrets.safe("token hunter2 is\nold"), "token ••• isold");
        assert_eq!(secrets.safe("Bearer hunter2?"), "•••?");
        assert_eq!(secrets.safe("a plain word"), "a plain word");
        assert_eq!(secrets.safe(&"x".repeat(5_000)).len(), WORDS_MAX_CHARS);
    }

    #[test]
    fn what_is_refused_shows_no_secret() {
        let mut output = OtlpOutput::http("ftp://me:hunter2@c");
        let error = Receiver::check(&output).err().unwrap().to_string();
        assert!(error.contains("http://host") && !error.contains("hunter2"), "{error}");
        output.endpoint = "http://c".to_owned();
        output.headers = vec![("a b".to_owned(), Secret::new("hunter2"))];
        let error = Receiver::check(&output).err().unwrap().to_string();
        assert!(error.contains("\"a b\"") && !error.contains("hunter2"), "{error}");
        output.headers = vec![("a".to_owned(), Secret::new("hunter2\n"))];
        let error = Receiver::check(&output).err().unwrap().to_string();
        assert!(error.contains("\"a\"") && !error.contains("hunter2"), "{error}");
    }
}
