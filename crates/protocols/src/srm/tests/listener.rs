//! A member alone that is told what a test likes, at a time of the test's.

use super::*;

pub(super) struct Listener {
    pub(super) srm: Srm,
    pub(super) now: Time,
}

impl Listener {
    /// Member 1, with these settings.
    pub(super) fn with(config: SrmConfig) -> Self {
        let srm = Srm::new(config, member(1), Rng::new(1), Time::ZERO).expect("valid");
        let now = Time::ZERO;
        Self { srm, now }
    }

    /// This many seconds pass, with what it says by itself.
    pub(super) fn pass(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        while let Some(due) = self.srm.poll_timeout().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            self.srm.handle_timeout(self.now);
            drain(&mut self.srm, self.now);
        }
        self.now = end;
    }

    /// What it is told because of this datagram of `from`, and since the last one: numbers, and
    /// whether they are delivered or lost.
    pub(super) fn hear(&mut self, from: u64, datagram: Vec<u8>) -> Vec<(u64, bool)> {
        self.srm
            .handle_datagram(self.now, member(from), datagram.into());
        drain(&mut self.srm, self.now);
        let events = core::iter::from_fn(|| self.srm.poll_event());
        let told = events.flat_map(|event| {
            let (numbers, delivered) = match event {
                Event::Deliver(it) => (it.id.number..=it.id.number, true),
                Event::Gap(gap) => (gap.first..=gap.last, false),
                other => panic!("{other:?}"),
            };
            numbers.map(move |number| (number, delivered))
        });
        told.collect()
    }

    /// The same, only the numbers that are delivered.
    pub(super) fn deliver(&mut self, from: u64, datagram: Vec<u8>) -> Vec<u64> {
        let told = self.hear(from, datagram).into_iter();
        let delivered = told.filter(|(_, delivered)| *delivered);
        delivered.map(|(number, _)| number).collect()
    }
}

/// Message `number` of whoever sends this.
pub(super) fn data(service: Service, number: u64) -> Vec<u8> {
    let mut bytes = wire::data_header(service, number);
    bytes.push(7);
    bytes
}
