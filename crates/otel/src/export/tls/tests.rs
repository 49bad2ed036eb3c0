//! Files that are what they should be, and files that are not.

use std::fs;
use std::path::PathBuf;

use rcgen::{CertifiedKey, generate_simple_self_signed};

use super::*;

fn pem(names: &[&str]) -> (String, String) {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    (cert.pem(), signing_key.serialize_pem())
}

#[test]
fn files() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let (certificate, key) = pem(&["a"]);
    let (_, other_key) = pem(&["b"]);
    let good = file("good.pem", &certificate);
    let good_key = file("good.key", &key);
    let wrong_key = file("wrong.key", &other_key);
    let empty = file("empty.pem", "");
    let garbage = file("garbage.pem", "-----BEGIN CERTIFICATE-----\nhunter2!\n-----END CERTIFICATE-----\n");
    let missing = directory.path().join("missing.pem");

    let client = |certificate: &PathBuf, key: &PathBuf| {
        Some(ClientFiles { certificate: certificate.clone(), key: key.clone() })
    };
    let table = [
        (Some(&good), None, Ok(())),
        (Some(&good), client(&good, &good_key), Ok(())),
        (Some(&empty), None, Err((CERTIFICATE, "holds no certificate"))),
        (Some(&garbage), None, Err((CERTIFICATE, "not PEM"))),
        (Some(&missing), None, Err((CERTIFICATE, "can't be read"))),
        (Some(&good), client(&missing, &good_key), Err((CLIENT_CERTIFICATE, "can't be read"))),
        (Some(&good), client(&good_key, &good_key), Err((CLIENT_CERTIFICATE, "holds no certificate"))),
        (Some(&good), client(&good, &good), Err((CLIENT_KEY, "holds no private key"))),
        (Some(&good), client(&good, &missing), Err((CLIENT_KEY, "can't be read"))),
        (Some(&good), client(&good, &wrong_key), Err((CLIENT_KEY, "does not go with"))),
    ];
    for (certificate, client, expected) in table {
        let files = TlsFiles { certificate: certificate.cloned(), client };
        match (client_config(true, &files), expected) {
            (Ok(_), Ok(())) => {}
            (Err(error), Err((variable, words))) => {
                let text = error.to_string();
                assert!(text.starts_with(variable) && text.contains(words), "{text}");
                assert!(!text.contains("hunter2"), "{text}");
            }
            (result, expected) => panic!("{files:?}: {result:?}, not {expected:?}"),
        }
        // Nothing is read for an address without TLS.
        assert!(client_config(false, &files).is_ok(), "{files:?}");
    }
}
