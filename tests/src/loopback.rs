//! Addresses of the loopback network for one test, so that each of its programs listens on its standard ports at an
//! address of its own, as it would on a host of its own, and no other test is in the way.
//!
//! Linux only: there all of 127/8 is the loopback interface.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context as _, bail};

/// The network is claimed by listening here on its last address.
const CLAIM: (u8, u16) = (254, 4316);

/// Ports that programs will listen on; if one is taken, some earlier run has left something behind.
const IN_USE_IF_TAKEN: [u16; 2] = [4317, 13133];

/// 254 addresses that no other test uses, until this is dropped.
#[derive(Debug)]
pub struct Loopback {
    network: u8,
    _claim: TcpListener,
}

impl Loopback {
    /// Claims a network that is free.
    ///
    /// # Errors
    /// If there is none, or this system's loopback interface has one address only.
    pub fn claim() -> anyhow::Result<Self> {
        let mut last = None;
        for network in 0..=u8::MAX {
            let address = |host: u8| Ipv4Addr::new(127, 77, network, host);
            let claim = match TcpListener::bind((address(CLAIM.0), CLAIM.1)) {
                Ok(claim) => claim,
                Err(error) => {
                    last = Some(error);
                    continue;
                }
            };
            let is_free = (1..10).all(|host| {
                IN_USE_IF_TAKEN.iter().all(|port| TcpListener::bind((address(host), *port)).is_ok())
            });
            if is_free {
                return Ok(Self { network, _claim: claim });
            }
        }
        match last {
            Some(error) => Err(error).context("no free network in 127.77.0.0/16"),
            None => bail!("something listens in each network of 127.77.0.0/16"),
        }
    }

    /// The address of host number `host`, from 1.
    #[must_use]
    pub fn host(&self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(127, 77, self.network, host)
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn two_tests_never_share_an_address() {
        let (one, other) = (Loopback::claim().expect("one"), Loopback::claim().expect("another"));
        assert_ne!(one.host(1), other.host(1));
        assert_ne!(one.host(1), one.host(2));
    }

    #[test]
    fn a_network_with_something_left_behind_is_passed_over() {
        let first = Loopback::claim().expect("one");
        let network = first.network;
        let left_behind = TcpListener::bind((first.host(3), 4317)).expect("nobody listens there");
        drop(first);
        let next = Loopback::claim().expect("another");
        assert_ne!(next.network, network);
        drop(left_behind);
    }
}
