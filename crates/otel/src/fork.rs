//! What a forked child must not share with its parent.
//!
//! `fork` copies memory, but only the thread that called it: a child finds locks that are held for
//! ever, a queue in the middle of a push, and a worker that isn't there. So everything of that kind
//! lives in a [`PerProcess`], which a child starts anew when it first asks for it. What the parent
//! had in it stays the parent's, who exports it; the child leaks its copy, since dropping could
//! mean to lock, to join or to send.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// How many forks lie between this process and the one that the program began in.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Unix time of the last of them, in nanoseconds; 0 for none.
static FORKED_AT_UNIX_NS: AtomicU64 = AtomicU64::new(0);

/// The number of this process in its line of forks.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Whether something that began at this time was begun by this process, and not by the parent that
/// it was forked from: the parent will end it, too.
pub(crate) fn is_ours(began: SystemTime) -> bool {
    let forked_at_ns = FORKED_AT_UNIX_NS.load(Ordering::Relaxed);
    forked_at_ns == 0 || began >= SystemTime::UNIX_EPOCH + Duration::from_nanos(forked_at_ns)
}

/// Has the C library tell us of every fork from now on. Costs nothing until there is one.
pub(crate) fn watch() {
    static IS_WATCHING: AtomicBool = AtomicBool::new(false);
    // No `Once`: a child forked in the middle of it would wait for a thread that it does not have.
    if !IS_WATCHING.swap(true, Ordering::Relaxed) {
        register();
    }
}

#[cfg(unix)]
fn register() {
    /// Runs in the child, before `fork` returns there.
    extern "C" fn in_child() {
        let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `ts` is a valid, writable timespec that outlives the call. `clock_gettime` is
        // async-signal-safe, which is all that a child of a threaded process may call here.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut ts) };
        let unix_ns = u64::try_from(ts.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000)
            + u64::try_from(ts.tv_nsec).unwrap_or(0);
        // 0 says that there was none.
        FORKED_AT_UNIX_NS.store(unix_ns.max(1), Ordering::Relaxed);
        // The child has one thread: nobody can see one of the two without the other.
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler is an `extern "C" fn()` that lives as long as the program (glibc drops it
    // with the library that registered it, if that is ever unloaded), and touches nothing but two
    // atomics. An error means that there was no memory for it; forks then go unnoticed, as before.
    unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    }
}

#[cfg(not(unix))]
fn register() {}

/// A value that each process has for itself: a forked child makes its own at first use.
pub(crate) struct PerProcess<T> {
    /// Never null. Always from `Box::into_raw`, and never freed while `self` lives.
    current: AtomicPtr<Stamped<T>>,
    in_child: Box<dyn Fn() -> T + Send + Sync>,
}

struct Stamped<T> {
    generation: u64,
    value: T,
}

impl<T> Stamped<T> {
    fn now(value: T) -> *mut Self {
        Box::into_raw(Box::new(Self { generation: generation(), value }))
    }
}

impl<T> PerProcess<T> {
    /// This process's value, and how a child makes its own.
    pub(crate) fn new(value: T, in_child: impl Fn() -> T + Send + Sync + 'static) -> Self {
        watch();
        Self { current: AtomicPtr::new(Stamped::now(value)), in_child: Box::new(in_child) }
    }

    /// The value of this process. Two atomic loads, once it is there.
    pub(crate) fn get(&self) -> &T {
        loop {
            let seen = self.current.load(Ordering::Acquire);
            // SAFETY: `current` holds a pointer from `Box::into_raw` whose box was complete before
            // it was stored (Release, in `new` by the move to other threads, below by the
            // exchange), so this Acquire load sees a whole value. It is freed by `drop` alone,
            // which needs `&mut self` and so can't run while the reference lives: that is bound to
            // `&self`. Only shared references are ever made of it.
            let stamped = unsafe { &*seen };
            if stamped.generation == generation() {
                return &stamped.value;
            }
            self.renew(seen);
        }
    }

    #[cold]
    fn renew(&self, seen: *mut Stamped<T>) {
        let fresh = Stamped::now((self.in_child)());
        let exchanged = self.current.compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire);
        if exchanged.is_err() {
            // SAFETY: `fresh` comes from `Box::into_raw` above and was not published: nobody else
            // has it. Another thread of this process has put its own in place.
            drop(unsafe { Box::from_raw(fresh) });
        }
        // What stood there before is the parent's, and is leaked.
    }
}

// SAFETY: a `PerProcess<T>` owns a `T` through its pointer, as a `Box<T>` would, and gives out only
// `&T`. A value may be made on one thread and used or dropped on another, hence `Send`; several
// threads may share it, hence `Sync`.
unsafe impl<T: Send + Sync> Send for PerProcess<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for PerProcess<T> {}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let current = *self.current.get_mut();
        // SAFETY: the pointer is from `Box::into_raw`, and no reference to its value is left, since
        // this has `&mut self`. It is freed once: nothing reads it after `drop`.
        unsafe {
            if (*current).generation == generation() {
                drop(Box::from_raw(current));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    /// Counts its own drops.
    struct Counted(usize, Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Makes a value look as a forked child finds it: of another generation.
    fn age<T>(cell: &PerProcess<T>) {
        let current = cell.current.load(Ordering::Acquire);
        // SAFETY: no other reference to the value is alive where the tests call this.
        unsafe { (*current).generation = u64::MAX };
    }

    #[test]
    fn a_child_makes_its_own_and_leaves_its_parents_alone() {
        let drops = Arc::new(AtomicUsize::new(0));
        let made = Arc::new(AtomicUsize::new(0));
        let (counted_drops, counter) = (Arc::clone(&drops), Arc::clone(&made));
        let in_child =
            move || Counted(1 + counter.fetch_add(1, Ordering::SeqCst), Arc::clone(&counted_drops));
        let cell = PerProcess::new(Counted(0, Arc::clone(&drops)), in_child);
        assert_eq!(cell.get().0, 0);
        age(&cell);
        assert_eq!(cell.get().0, 1, "made anew");
        assert_eq!(cell.get().0, 1, "once");
        assert_eq!(drops.load(Ordering::SeqCst), 0, "the parent's is leaked");
        drop(cell);
        assert_eq!(drops.load(Ordering::SeqCst), 1, "the child's own is not");
        assert_eq!(made.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_value_that_was_never_renewed_in_the_child_is_leaked_too() {
        let drops = Arc::new(AtomicUsize::new(0));
        let counted = Counted(0, Arc::clone(&drops));
        let cell = PerProcess::new(counted, || unreachable!("nobody asks for it"));
        age(&cell);
        drop(cell);
        assert_eq!(drops.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn threads_of_a_child_agree_on_one_value() {
        let made = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&made);
        let cell = Arc::new(PerProcess::new(0, move || 1 + counter.fetch_add(1, Ordering::SeqCst)));
        age(&cell);
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let cell = Arc::clone(&cell);
                std::thread::spawn(move || *cell.get())
            })
            .collect();
        let seen: std::collections::BTreeSet<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert!(seen.first().is_some_and(|value| *value >= 1));
    }

    #[test]
    fn without_a_fork_everything_is_ours() {
        assert_eq!(generation(), 0);
        assert!(is_ours(SystemTime::UNIX_EPOCH));
    }
}
