//! TLS for both protocols.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;

use super::transport::TransportError;
use crate::config::{ClientFiles, TlsFiles};

const CERTIFICATE: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";
const CLIENT_CERTIFICATE: &str = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
const CLIENT_KEY: &str = "OTEL_EXPORTER_OTLP_CLIENT_KEY";

/// The client's side of TLS, with the ring provider, named here: reqwest's default client fails,
/// for http:// too, as soon as any crate of the program turns its provider off.
///
/// # Errors
/// A file that can't be read or holds something else than it should, or no root to trust.
pub(super) fn client_config(is_secure: bool, files: &TlsFiles) -> Result<ClientConfig, TransportError> {
    let failed = |error: rustls::Error| TransportError::Receiver(format!("TLS can't be set up: {error}"));
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(failed)?;
    if !is_secure {
        // No certificate is ever checked on http://; the system's roots need not be readable.
        return Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
    }
    let builder = match &files.certificate {
        Some(path) => builder.with_root_certificates(roots(path)?),
        None => builder.with_platform_verifier().map_err(failed)?,
    };
    let Some(ClientFiles { certificate, key }) = &files.client else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = certificates(CLIENT_CERTIFICATE, certificate)?;
    let private_key =
        PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(CLIENT_KEY, key, &pem_problem(&error)))?;
    builder.with_client_auth_cert(chain, private_key).map_err(|error| {
        unusable(CLIENT_KEY, key, &format!("which does not go with the certificate: {error}"))
    })
}

fn roots(path: &Path) -> Result<RootCertStore, TransportError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(CERTIFICATE, path)? {
        roots.add(certificate).map_err(|error| {
            unusable(CERTIFICATE, path, &format!("whose certificate is unusable: {error}"))
        })?;
    }
    Ok(roots)
}

/// At least one certificate.
fn certificates(variable: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TransportError> {
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).and_then(|certificates| certificates.collect());
    match certificates {
        Ok(certificates) if certificates.is_empty() => {
            Err(unusable(variable, path, "which holds no certificate"))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(unusable(variable, path, &pem_problem(&error))),
    }
}

/// What is wrong with a file, without any of its content.
fn pem_problem(error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => format!("which can't be read: {error}"),
        pem::Error::NoItemsFound => "which holds no private key".to_owned(),
        _ => "which is not PEM".to_owned(),
    }
}

fn unusable(variable: &'static str, path: &Path, problem: &str) -> TransportError {
    TransportError::TlsFile { variable, path: path.to_owned(), problem: problem.to_owned() }
}

#[cfg(test)]
mod tests;
