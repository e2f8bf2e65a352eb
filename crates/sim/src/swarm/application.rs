//! What uses the group of a scenario: what its load means, and what must have come of it.

use bytes::Bytes;
use groupcast_core::{Instrumented, SubmitError, Time};

use super::scenario::Submission;
use crate::cluster::Cluster;
use crate::world::Factory;

/// The user of a group in one run.
pub trait Application<P> {
    /// Carries out a submission of the scenario at `host`, where a process runs.
    ///
    /// # Errors
    /// The process does not take it.
    fn submit(
        &mut self,
        cluster: &mut Cluster<P>,
        host: usize,
        submission: &Submission,
        payload: Bytes,
    ) -> Result<(), SubmitError>;

    /// Everything is well, and will be: lets time pass until all that was begun is done, until
    /// `limit` at the latest. Nothing to do, by default.
    ///
    /// # Errors
    /// What is not done by then.
    fn finish(&mut self, cluster: &mut Cluster<P>, limit: Time) -> Result<(), String> {
        let _ = (cluster, limit);
        Ok(())
    }

    /// What it has against what its users saw, beside the verdict on the histories. Nothing by
    /// default. What holds only once all are together may be judged if they are `at_peace`: if not,
    /// a fault may still keep them apart.
    fn violations(&mut self, cluster: &mut Cluster<P>, at_peace: bool) -> Vec<String> {
        let _ = (cluster, at_peace);
        Vec::new()
    }
}

/// A group for one run: how its members are made, and who uses them.
pub struct Group<P> {
    /// Makes the members.
    pub factory: Factory<P>,
    /// Uses them.
    pub application: Box<dyn Application<P>>,
}

impl<P: Instrumented> Group<P> {
    /// A group whose members get each submission as a message.
    pub fn plain(factory: Factory<P>) -> Self {
        Self {
            factory,
            application: Box::new(Plain),
        }
    }
}

/// A submission is a message.
struct Plain;

impl<P: Instrumented> Application<P> for Plain {
    fn submit(
        &mut self,
        cluster: &mut Cluster<P>,
        host: usize,
        submission: &Submission,
        payload: Bytes,
    ) -> Result<(), SubmitError> {
        let taken = cluster.submit(host, submission.service, payload);
        taken.map(|_| ())
    }
}
