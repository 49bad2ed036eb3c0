//! A certificate authority for a test, and what it signs.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use stagespan_otel::config::ClientFiles;
use tempfile::TempDir;

static NUMBER: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Authority {
    directory: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // Certificates are looked up by this name: no two authorities may share it.
        let name = format!("authority {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { directory, issuer }
    }

    /// The authority's own certificate, as a file.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// A certificate and its key, as files.
    pub(crate) fn issue(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> ClientFiles {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        let files = ClientFiles {
            certificate: self.directory.path().join(format!("{name}.pem")),
            key: self.directory.path().join(format!("{name}.key")),
        };
        fs::write(&files.certificate, signed.pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }

    /// A server of this name; it asks clients for a certificate of this authority if told to.
    pub(crate) fn server(&self, name: &str, asks_clients: bool) -> Arc<ServerConfig> {
        let files = self.issue(name, ExtendedKeyUsagePurpose::ServerAuth);
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if asks_clients {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let chain = vec![CertificateDer::from_pem_file(&files.certificate).unwrap()];
        let mut config =
            builder.with_single_cert(chain, PrivateKeyDer::from_pem_file(&files.key).unwrap()).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }
}
