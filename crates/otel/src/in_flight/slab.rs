//! A table of requests that is written by their owners and read by anybody, without locks.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use stagespan_model::RequestId;

use super::request::Wait;

/// Slots in one allocation: the table grows by so many at a time.
const SEGMENT: usize = 256;
/// Requests in flight that are listed; what is beyond is only counted.
const SEGMENTS: usize = 64;
/// Bytes of a request id that are kept.
const ID_MAX_BYTES: usize = 128;
/// No slot.
const NONE: u32 = u32::MAX;
/// Bits of a slot's state that say what it waits for.
const WAIT_BITS: u32 = 3;

/// One request. Its owner writes, anybody reads: a reader takes what it read only if `sequence` is
/// even and the same before and after, which is so if no owner has changed meanwhile.
struct Slot {
    /// Odd while a new owner writes what does not change; goes up by two with each owner.
    sequence: AtomicU64,
    /// 0 for a free slot, else since when it waits, and for what: 10¹⁸ ns leave room for 4 bits.
    state: AtomicU64,
    queued_ns: AtomicU64,
    stage: AtomicU32,
    id_bytes: AtomicU32,
    id: [AtomicU64; ID_MAX_BYTES / 8],
    /// The owner, by its `sequence`, that was warned of.
    warned: AtomicU64,
    /// The next free slot, in a free one.
    next_free: AtomicU32,
}

impl Slot {
    fn new() -> Self {
        Self {
            sequence: AtomicU64::new(0),
            state: AtomicU64::new(0),
            queued_ns: AtomicU64::new(0),
            stage: AtomicU32::new(0),
            id_bytes: AtomicU32::new(0),
            id: [const { AtomicU64::new(0) }; ID_MAX_BYTES / 8],
            warned: AtomicU64::new(0),
            next_free: AtomicU32::new(NONE),
        }
    }
}

/// What was read of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) request_id: String,
    pub(super) stage: u32,
    pub(super) wait: Wait,
    pub(super) queued_ns: u64,
    pub(super) since_ns: u64,
    /// Which owner of the slot it was.
    sequence: u64,
}

/// The table.
pub(super) struct Slab {
    segments: [OnceLock<Box<[Slot]>>; SEGMENTS],
    /// Slots that have ever been given out.
    used: AtomicU32,
    /// The first free slot below, and a number that changes with it: a slot that was taken and put
    /// back in between is told from one that never moved.
    free: AtomicU64,
    len: AtomicU64,
}

impl Default for Slab {
    fn default() -> Self {
        Self {
            segments: [const { OnceLock::new() }; SEGMENTS],
            used: AtomicU32::new(0),
            free: AtomicU64::new(u64::from(NONE)),
            len: AtomicU64::new(0),
        }
    }
}

impl Slab {
    /// Requests in flight, listed or not.
    pub(super) fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    /// Takes a request in. `None` where there is no room: it is counted then, but not listed.
    pub(super) fn insert(&self, request_id: &str, stage: u32, wait: Wait, queued_ns: u64) -> Option<u32> {
        self.len.fetch_add(1, Ordering::Relaxed);
        let index = self.take_free().or_else(|| self.take_unused())?;
        let slot = self.slot(index)?;
        // This thread alone owns the slot: nobody else writes to it.
        let sequence = slot.sequence.load(Ordering::Relaxed);
        slot.sequence.store(sequence + 1, Ordering::Relaxed);
        // Whoever sees one of the following sees the odd number, too.
        fence(Ordering::Release);
        let mut end = request_id.len().min(ID_MAX_BYTES);
        while !request_id.is_char_boundary(end) {
            end -= 1;
        }
        let id = &request_id.as_bytes()[..end];
        for (place, bytes) in slot.id.iter().zip(id.chunks(8)) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            place.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        slot.id_bytes.store(id.len() as u32, Ordering::Relaxed);
        slot.stage.store(stage, Ordering::Relaxed);
        slot.queued_ns.store(queued_ns, Ordering::Relaxed);
        slot.state.store(pack(wait, queued_ns), Ordering::Relaxed);
        slot.sequence.store(sequence + 2, Ordering::Release);
        Some(index)
    }

    /// The owner's request goes on to another wait; without a time, that of the last one stays.
    pub(super) fn set(&self, index: u32, wait: Wait, since_ns: Option<u64>) {
        let Some(slot) = self.slot(index) else { return };
        let since_ns = since_ns.unwrap_or_else(|| slot.state.load(Ordering::Relaxed) >> WAIT_BITS);
        slot.state.store(pack(wait, since_ns), Ordering::Relaxed);
    }

    /// The owner's request is finished.
    pub(super) fn remove(&self, index: Option<u32>) {
        self.len.fetch_sub(1, Ordering::Relaxed);
        let Some((index, slot)) = index.and_then(|index| Some((index, self.slot(index)?))) else { return };
        slot.state.store(0, Ordering::Relaxed);
        let mut head = self.free.load(Ordering::Relaxed);
        loop {
            slot.next_free.store(head as u32, Ordering::Relaxed);
            let fresh = retagged(head, index);
            // Release: whoever takes the slot next finds it as it is left here.
            match self.free.compare_exchange_weak(head, fresh, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Shows each request that can be read whole; one that is just being taken in is not there yet.
    pub(super) fn each(&self, mut look: impl FnMut(u32, Seen)) {
        for index in 0..self.used.load(Ordering::Acquire) {
            if let Some(seen) = self.slot(index).and_then(read) {
                look(index, seen);
            }
        }
    }

    /// Whether this is the first time for this request.
    pub(super) fn mark_warned(&self, index: u32, seen: &Seen) -> bool {
        self.slot(index)
            .is_some_and(|slot| slot.warned.swap(seen.sequence, Ordering::Relaxed) != seen.sequence)
    }

    fn slot(&self, index: u32) -> Option<&Slot> {
        let index = index as usize;
        let segment = self.segments.get(index / SEGMENT)?;
        segment.get_or_init(|| (0..SEGMENT).map(|_| Slot::new()).collect()).get(index % SEGMENT)
    }

    fn take_free(&self) -> Option<u32> {
        let mut head = self.free.load(Ordering::Acquire);
        loop {
            let index = head as u32;
            if index == NONE {
                return None;
            }
            let next = self.slot(index)?.next_free.load(Ordering::Relaxed);
            // If the slot was taken meanwhile, `next` means nothing; the exchange then fails, since
            // the number beside the index has changed.
            let fresh = retagged(head, next);
            match self.free.compare_exchange_weak(head, fresh, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(index),
                Err(now) => head = now,
            }
        }
    }

    fn take_unused(&self) -> Option<u32> {
        let next = |used: u32| ((used as usize) < SEGMENT * SEGMENTS).then_some(used + 1);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).ok()
    }
}

/// The head of the list of free slots with another index, and another number beside it.
fn retagged(head: u64, index: u32) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | u64::from(index)
}

fn pack(wait: Wait, since_ns: u64) -> u64 {
    let code = match wait {
        Wait::Input => 1,
        Wait::StreamSlot => 2,
        Wait::Ready => 3,
        Wait::Scheduling => 4,
        Wait::Over => 5,
    };
    (since_ns << WAIT_BITS) | code
}

fn unpack(state: u64) -> Option<(Wait, u64)> {
    let wait = match state & ((1 << WAIT_BITS) - 1) {
        1 => Wait::Input,
        2 => Wait::StreamSlot,
        3 => Wait::Ready,
        4 => Wait::Scheduling,
        5 => Wait::Over,
        _ => return None,
    };
    Some((wait, state >> WAIT_BITS))
}

fn read(slot: &Slot) -> Option<Seen> {
    let sequence = slot.sequence.load(Ordering::Acquire);
    if sequence % 2 == 1 {
        return None;
    }
    let state = slot.state.load(Ordering::Relaxed);
    let (wait, since_ns) = unpack(state)?;
    let stage = slot.stage.load(Ordering::Relaxed);
    let queued_ns = slot.queued_ns.load(Ordering::Relaxed);
    let id_bytes = (slot.id_bytes.load(Ordering::Relaxed) as usize).min(ID_MAX_BYTES);
    let mut id = [0_u8; ID_MAX_BYTES];
    for (bytes, place) in id.chunks_mut(8).zip(&slot.id) {
        bytes.copy_from_slice(&place.load(Ordering::Relaxed).to_ne_bytes());
    }
    // If any of that is a later owner's, this one sees that owner's number.
    fence(Ordering::Acquire);
    if slot.sequence.load(Ordering::Relaxed) != sequence {
        return None;
    }
    let (request_id, _) = RequestId::sanitized(&String::from_utf8_lossy(&id[..id_bytes]));
    Some(Seen { request_id: request_id.as_str().to_owned(), stage, wait, queued_ns, since_ns, sequence })
}

#[cfg(test)]
mod tests;
