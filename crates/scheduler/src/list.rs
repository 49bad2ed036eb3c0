//! Doubly linked lists threaded through the requests themselves.
//!
//! A queue must lose a request from its middle (an abort, a timeout) in constant time, however
//! many wait beside it; a deque or a map can't.

use std::marker::PhantomData;

use slotmap::SlotMap;

use crate::request::{Request, RequestHandle};

/// The requests in flight.
pub(crate) type Requests = SlotMap<RequestHandle, Request>;

/// A request's neighbours in one list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Links {
    previous: Option<RequestHandle>,
    next: Option<RequestHandle>,
}

/// Names one pair of links in a request. A request is in at most one list per name.
pub(crate) trait Thread {
    fn links(request: &Request) -> &Links;
    fn links_mut(request: &mut Request) -> &mut Links;
}

/// The thread of the queues: arrivals, waiting, without a window slot.
#[derive(Debug)]
pub(crate) struct ByQueue;

impl Thread for ByQueue {
    fn links(request: &Request) -> &Links {
        &request.queue_links
    }
    fn links_mut(request: &mut Request) -> &mut Links {
        &mut request.queue_links
    }
}

/// The thread of the gate's deadlines.
#[derive(Debug)]
pub(crate) struct ByDeadline;

impl Thread for ByDeadline {
    fn links(request: &Request) -> &Links {
        &request.deadline_links
    }
    fn links_mut(request: &mut Request) -> &mut Links {
        &mut request.deadline_links
    }
}

/// A list of requests along the thread `T`.
#[derive(Debug)]
pub(crate) struct List<T> {
    head: Option<RequestHandle>,
    tail: Option<RequestHandle>,
    len: usize,
    thread: PhantomData<T>,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { head: None, tail: None, len: 0, thread: PhantomData }
    }
}

impl<T: Thread> List<T> {
    pub(crate) const fn head(&self) -> Option<RequestHandle> {
        self.head
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push_back(&mut self, requests: &mut Requests, handle: RequestHandle) {
        *T::links_mut(&mut requests[handle]) = Links { previous: self.tail, next: None };
        match self.tail.replace(handle) {
            Some(tail) => T::links_mut(&mut requests[tail]).next = Some(handle),
            None => self.head = Some(handle),
        }
        self.len += 1;
    }

    pub(crate) fn push_front(&mut self, requests: &mut Requests, handle: RequestHandle) {
        *T::links_mut(&mut requests[handle]) = Links { previous: None, next: self.head };
        match self.head.replace(handle) {
            Some(head) => T::links_mut(&mut requests[head]).previous = Some(handle),
            None => self.tail = Some(handle),
        }
        self.len += 1;
    }

    /// Takes out `handle`, which must be in this list.
    pub(crate) fn remove(&mut self, requests: &mut Requests, handle: RequestHandle) {
        let Links { previous, next } = std::mem::take(T::links_mut(&mut requests[handle]));
        match previous {
            Some(previous) => T::links_mut(&mut requests[previous]).next = next,
            None => self.head = next,
        }
        match next {
            Some(next) => T::links_mut(&mut requests[next]).previous = previous,
            None => self.tail = previous,
        }
        self.len -= 1;
    }

    pub(crate) fn pop_front(&mut self, requests: &mut Requests) -> Option<RequestHandle> {
        let head = self.head?;
        self.remove(requests, head);
        Some(head)
    }

    /// The handles from front to back.
    pub(crate) fn iter<'a>(&'a self, requests: &'a Requests) -> impl Iterator<Item = RequestHandle> + 'a {
        std::iter::successors(self.head, |&handle| T::links(&requests[handle]).next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_its_order_through_removals() {
        let mut requests = Requests::with_key();
        let handles: Vec<_> = (0..4).map(|_| requests.insert(Request::for_test())).collect();
        let mut list = List::<ByQueue>::default();
        list.push_back(&mut requests, handles[1]);
        list.push_back(&mut requests, handles[2]);
        list.push_front(&mut requests, handles[0]);
        list.push_back(&mut requests, handles[3]);
        assert_eq!(list.iter(&requests).collect::<Vec<_>>(), handles);
        list.remove(&mut requests, handles[2]);
        list.remove(&mut requests, handles[0]);
        assert_eq!(list.iter(&requests).collect::<Vec<_>>(), [handles[1], handles[3]]);
        list.remove(&mut requests, handles[3]);
        assert_eq!((list.len(), list.head()), (1, Some(handles[1])));
        assert_eq!(list.pop_front(&mut requests), Some(handles[1]));
        assert!(list.len() == 0 && list.pop_front(&mut requests).is_none());
    }
}
