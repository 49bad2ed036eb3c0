//! Which clock an instant was read on.

use std::fmt;
use std::fs;
use std::sync::Arc;

/// The identity of a monotonic clock: two equal domains are literally the same clock.
///
/// On Linux it is the kernel's boot id with the offsets of the time namespace (`CLOCK_MONOTONIC`
/// differs between time namespaces of one boot). Where it can't be read, the domain is *unknown*:
/// unique to the process, so that nothing is ever taken for the same clock by mistake.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ClockDomain {
    id: Arc<str>,
    tag: DomainTag,
}

/// A 64-bit tag of a [`ClockDomain`] that every [`Instant`](crate::Instant) carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DomainTag(u64);

/// The longest domain id taken from a peer, in bytes.
const ID_MAX_BYTES: usize = 128;

impl ClockDomain {
    /// A domain from its identity, as a peer sent it.
    ///
    /// `None` if it is empty, longer than 128 bytes, or holds anything but `[0-9A-Za-z._-]`.
    pub fn from_id(id: &str) -> Option<Self> {
        let safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if id.is_empty() || id.len() > ID_MAX_BYTES || !id.bytes().all(safe) {
            return None;
        }
        Some(Self { id: Arc::from(id), tag: DomainTag::of(id) })
    }

    /// The domain of this process, read from the operating system.
    pub fn of_this_process() -> Self {
        Self::read("self").unwrap_or_else(Self::unknown)
    }

    /// The domain of another process of this machine, by its pid; `None` where it can't be read.
    ///
    /// The boot id is common to the machine; the time namespace is the process's own.
    pub fn of_process(pid: u32) -> Option<Self> {
        Self::read(&pid.to_string())
    }

    #[cfg(target_os = "linux")]
    fn read(process: &str) -> Option<Self> {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let namespace = |which: &str| fs::read_link(format!("/proc/{process}/ns/{which}"));
        let offsets = match (namespace("time"), namespace("time_for_children")) {
            // The offsets file describes the children's namespace; it is ours only if both are one.
            (Ok(own), Ok(for_children)) if own == for_children => {
                fs::read_to_string(format!("/proc/{process}/timens_offsets")).ok()?
            }
            // A kernel without time namespaces has one clock per boot. That the links can't be
            // read proves it only where the process's other namespaces can.
            (Err(_), Err(_)) if namespace("mnt").is_ok() => String::new(),
            _ => return None,
        };
        Self::from_parts(boot_id.trim(), &offsets)
    }

    #[cfg(not(target_os = "linux"))]
    fn read(_process: &str) -> Option<Self> {
        None
    }

    /// A domain from the boot id and the text of `timens_offsets` (lines `clock seconds nanoseconds`).
    fn from_parts(boot_id: &str, offsets: &str) -> Option<Self> {
        let mut id = boot_id.to_owned();
        for line in offsets.lines() {
            let mut words = line.split_whitespace();
            let (Some(clock), Some(s), Some(ns)) = (words.next(), words.next(), words.next()) else {
                return None;
            };
            // Only the clock that is read counts; a zero offset is the initial namespace's clock.
            if clock == "monotonic" && (s, ns) != ("0", "0") {
                id.push_str(&format!(".{s}.{ns}"));
            }
        }
        Self::from_id(&id)
    }

    /// A domain that equals no other: for a clock whose identity can't be read.
    pub fn unknown() -> Self {
        use std::hash::{BuildHasher, RandomState};
        // RandomState is seeded by the operating system; two of them give 128 bits.
        let random = || RandomState::new().hash_one(std::process::id());
        let id = format!("unknown-{:016x}{:016x}", random(), random());
        Self { tag: DomainTag::of(&id), id: Arc::from(id) }
    }

    /// Its identity, as it stands in `stagespan.clock.domain`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The tag that its instants carry.
    pub fn tag(&self) -> DomainTag {
        self.tag
    }
}

impl fmt::Debug for ClockDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClockDomain({})", self.id)
    }
}

impl fmt::Display for ClockDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)
    }
}

impl DomainTag {
    /// FNV-1a: the same in every process, so a tag needs no table. Domains come only from the
    /// orchestrator's own channel, so nobody gains by looking for a collision.
    const fn of(id: &str) -> Self {
        let bytes = id.as_bytes();
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut i = 0;
        while i < bytes.len() {
            hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
            i += 1;
        }
        Self(hash)
    }
}

impl fmt::Debug for DomainTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_the_time_namespace_are_part_of_the_domain() {
        let boot = "f96fc01a-4fcf-4515-8dd6-00cda5b04325";
        let plain = ClockDomain::from_parts(boot, "").unwrap();
        let zero = ClockDomain::from_parts(boot, "monotonic 0 0\nboottime 0 0\n").unwrap();
        let ahead = ClockDomain::from_parts(boot, "monotonic    100000    0\nboottime 0 0\n").unwrap();
        let boottime = ClockDomain::from_parts(boot, "monotonic 0 0\nboottime 7 0\n").unwrap();
        assert_eq!(plain, zero);
        assert_eq!(plain, boottime);
        assert_ne!(plain, ahead);
        assert_eq!(ahead.id(), "f96fc01a-4fcf-4515-8dd6-00cda5b04325.100000.0");
        assert_ne!(plain.tag(), ahead.tag());
        assert_eq!(ClockDomain::from_parts(boot, "monotonic 5\n"), None);
    }

    #[test]
    fn unknown_equals_no_other() {
        let (a, b) = (ClockDomain::unknown(), ClockDomain::unknown());
        assert_ne!(a, b);
        assert_ne!(a.tag(), b.tag());
        assert_eq!(a, a.clone());
    }

    #[test]
    fn ids_from_peers_are_checked() {
        for bad in ["", "a b", "a;b", "a\n", "é", &"x".repeat(129)] {
            assert_eq!(ClockDomain::from_id(bad), None, "{bad:?}");
        }
        assert_eq!(ClockDomain::from_id("abc-1.2_3").unwrap().id(), "abc-1.2_3");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_and_its_pid_agree() {
        let own = ClockDomain::of_this_process();
        assert_eq!(ClockDomain::of_process(std::process::id()), Some(own));
        assert_eq!(ClockDomain::of_process(u32::MAX), None);
    }
}
