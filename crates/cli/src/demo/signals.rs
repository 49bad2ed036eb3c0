//! Ctrl-C and SIGTERM end the run in order; a second one ends it at once.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::exit::Signal;

/// Listens from its making on.
#[derive(Clone, Debug)]
pub(super) struct Signals(watch::Receiver<Option<Signal>>);

impl Signals {
    /// Takes both signals over.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn listen() -> io::Result<Self> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (sender, receiver) = watch::channel(None);
        tokio::spawn(async move {
            let mut asked = false;
            loop {
                let signal = tokio::select! {
                    _ = interrupt.recv() => Signal::Interrupt,
                    _ = terminate.recv() => Signal::Terminate,
                };
                if asked {
                    // The stages end with their connections.
                    std::process::exit(signal.exit_code().into());
                }
                asked = true;
                sender.send_replace(Some(signal));
            }
        });
        Ok(Self(receiver))
    }

    /// The first signal; waits for it.
    pub(super) async fn first(&mut self) -> Signal {
        match self.0.wait_for(Option::is_some).await.map(|signal| *signal) {
            Ok(Some(signal)) => signal,
            // Without the listening task there will be none.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}
