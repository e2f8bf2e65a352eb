//! The endpoint of a measuring process that uses a protocol itself: how it is opened, and one turn
//! of it.
//!
//! Which protocol it is and what its events mean is left to [`library`](super::library),
//! [`gossip`](super::gossip) and other measurements without a daemon.

use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use groupcast_core::{Event, MemberId, Protocol, Rng};
use groupcast_net::{Endpoint, EndpointConfig, Key, Sealing};

use super::clock::{self, Instant, Window};
use super::{BenchError, await_window};

/// What was tried when a member could not be set up.
const START: &str = "start a member";

/// An endpoint of `local` without a protocol yet; in clear without a key.
pub(super) fn open<P: Protocol>(
    local: MemberId,
    config: EndpointConfig,
    key: Option<&Key>,
    rng: &Rng,
) -> Result<Endpoint<P>, BenchError> {
    let sealing = key.map_or(Sealing::Insecure, |key| Sealing::Key(key.clone()));
    Endpoint::builder(config, local, sealing)
        .rng(rng.clone())
        .open()
        .map_err(failed)
}

/// For `map_err`: a member could not be set up.
pub(super) fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::client(START, error)
}

/// The window, once it is known. A process that waits for it must go on driving its endpoint
/// meanwhile.
pub(super) fn window_in_time() -> Receiver<Result<Window, BenchError>> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        // A member that has failed meanwhile does not want to know.
        let _ = tell.send(await_window());
    });
    told
}

/// A measuring process that drives an endpoint and takes its events.
pub(super) trait Driver {
    /// What runs on the endpoint.
    type Protocol: Protocol<Event = Event>;

    fn endpoint(&mut self) -> &mut Endpoint<Self::Protocol>;

    /// Takes an event; `now` is when the turn that brought it ended.
    fn take(&mut self, now: Instant, event: Event) -> Result<(), BenchError>;

    /// One turn of the endpoint, which waits for at most `patience`, and what came of it.
    fn turn(&mut self, patience: Duration) -> Result<(), BenchError> {
        let mut ready = Vec::new();
        self.endpoint()
            .turn(Some(patience), &mut ready)
            .map_err(BenchError::io("drive a member"))?;
        let now = clock::now();
        while let Some((_, event)) = self.endpoint().node_mut().poll_event() {
            self.take(now, event)?;
        }
        // Nobody traces here.
        while self.endpoint().node_mut().poll_transition().is_some() {}
        Ok(())
    }
}
