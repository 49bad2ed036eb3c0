//! One of vLLM's waiting queues, without its held requests.
//!
//! vLLM-Omni takes held requests out of the queue at each gate pass and appends them again at the
//! end of the step. Kept in one list they would be walked every step; so they are kept apart, and
//! only what that walk would have done to their *order* is reproduced:
//!
//! ```text
//!   real queue at a gate pass:   [ active … ][ held … ][ arrived since … ]
//!   after the pass, active:      active (less newly held) + released + arrivals that pass
//!   after the pass, held:        newly held + held (less released) + arrivals that are held
//! ```

use std::collections::BTreeMap;

use crate::list::{ByQueue, List, Requests};
use crate::request::{Place, QueueId, RequestHandle};

#[derive(Debug)]
pub(crate) struct WaitQueue {
    id: QueueId,
    /// Appended since the last gate pass.
    pub(crate) arrivals: List<ByQueue>,
    /// What scheduling may take, by ascending `order`.
    active: List<ByQueue>,
    /// Likewise; requests that were blocked at their position and no longer are.
    aside: BTreeMap<i64, RequestHandle>,
    /// Free positions at both ends of `active`.
    front: i64,
    back: i64,
    /// Free positions at both ends of what the gate holds from this queue.
    held_front: i64,
    held_back: i64,
    /// Active requests that the next gate pass must look at again.
    pub(crate) recheck: Vec<RequestHandle>,
}

impl WaitQueue {
    pub(crate) fn new(id: QueueId) -> Self {
        Self {
            id,
            arrivals: List::default(),
            active: List::default(),
            aside: BTreeMap::new(),
            front: -1,
            back: 0,
            held_front: -1,
            held_back: 0,
            recheck: Vec::new(),
        }
    }

    /// Requests that scheduling may take.
    pub(crate) fn len(&self) -> usize {
        self.active.len() + self.aside.len()
    }

    pub(crate) fn peek(&self, requests: &Requests) -> Option<RequestHandle> {
        let aside = self.aside.first_key_value();
        match (self.active.head(), aside) {
            (Some(head), Some((order, _))) if requests[head].order < *order => Some(head),
            (head, None) => head,
            (_, Some((_, handle))) => Some(*handle),
        }
    }

    pub(crate) fn arrive(&mut self, requests: &mut Requests, handle: RequestHandle) {
        requests[handle].place = Place::Arrived(self.id);
        self.arrivals.push_back(requests, handle);
    }

    pub(crate) fn push_back(&mut self, requests: &mut Requests, handle: RequestHandle) {
        self.take_back_position(requests, handle, Place::Waiting(self.id));
        self.active.push_back(requests, handle);
    }

    pub(crate) fn push_front(&mut self, requests: &mut Requests, handle: RequestHandle) {
        let request = &mut requests[handle];
        request.place = Place::Waiting(self.id);
        request.order = self.front;
        self.front -= 1;
        self.active.push_front(requests, handle);
    }

    /// Gives a blocked request its position without making it schedulable.
    pub(crate) fn block_back(&mut self, requests: &mut Requests, handle: RequestHandle) {
        self.take_back_position(requests, handle, Place::Blocked(self.id));
    }

    /// Makes a blocked request schedulable at the position it had.
    pub(crate) fn unblock(&mut self, requests: &mut Requests, handle: RequestHandle) {
        let request = &mut requests[handle];
        request.place = Place::WaitingAside(self.id);
        self.aside.insert(request.order, handle);
    }

    fn take_back_position(&mut self, requests: &mut Requests, handle: RequestHandle, place: Place) {
        let request = &mut requests[handle];
        request.place = place;
        request.order = self.back;
        self.back += 1;
    }

    /// Takes out a request whose place is in this queue.
    pub(crate) fn remove(&mut self, requests: &mut Requests, handle: RequestHandle) {
        match requests[handle].place {
            Place::Arrived(_) => self.arrivals.remove(requests, handle),
            Place::Waiting(_) => self.active.remove(requests, handle),
            Place::WaitingAside(_) => {
                let order = requests[handle].order;
                self.aside.remove(&order);
            }
            Place::Blocked(_)
            | Place::HeldWaiting(_)
            | Place::NoSlot
            | Place::NoSlotRunning
            | Place::HeldRunning
            | Place::Running
            | Place::Leaving => {}
        }
    }

    /// The position of a request that the gate newly holds behind those it holds already.
    pub(crate) fn next_held_back(&mut self) -> i64 {
        self.held_back += 1;
        self.held_back - 1
    }

    /// Positions of `count` requests that the gate newly holds before those it holds already.
    pub(crate) fn next_held_front(&mut self, count: usize) -> impl Iterator<Item = i64> + use<> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.held_front -= count;
        let first = self.held_front + 1;
        first..first + count
    }

    /// What scheduling may take, in no particular order. It walks the whole queue: for a caller
    /// that has made sure the queue is short.
    pub(crate) fn iter<'a>(&'a self, requests: &'a Requests) -> impl Iterator<Item = RequestHandle> + 'a {
        self.active.iter(requests).chain(self.aside.values().copied())
    }
}
