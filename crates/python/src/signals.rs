//! Threads of ours take no signal from the interpreter.

/// Runs `work` with every signal blocked in this thread; a thread that it starts inherits that.
///
/// The interpreter handles signals in its main thread, which a signal must interrupt: one that is
/// delivered to a thread of ours would leave the main thread in its system call.
#[cfg(unix)]
pub(crate) fn blocked<T>(work: impl FnOnce() -> T) -> T {
    struct Restore(libc::sigset_t);

    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: the set was filled in by the call that blocked the signals.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
        }
    }

    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are valid for writes; `sigfillset` initialises the first, and a
    // `pthread_sigmask` that answers 0 the second, which is read only then.
    let restore = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        (libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0)
            .then(|| Restore(before.assume_init()))
    };
    let done = work();
    drop(restore);
    done
}

/// Elsewhere there are no signals to block.
#[cfg(not(unix))]
pub(crate) fn blocked<T>(work: impl FnOnce() -> T) -> T {
    work()
}
