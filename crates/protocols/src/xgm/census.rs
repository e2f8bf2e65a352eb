//! The asker's side of a census: it chooses the hosts that the next poll asks, keeps what they
//! answered, and decides when the census ends.
//!
//! A hash gives each host a position in 0..2^32, another one in each census. A poll asks the hosts
//! in a slice of the positions. The number of answers to the last poll sets the width of the next
//! slice, so that a poll brings about [`XgmConfig::answers_wanted`] answers, whatever the group's
//! size. After the last position the next pass begins: its polls name the hosts of their slice that
//! have answered, and these keep silent. The hosts keep no state for a census.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::{Incarnation, MemberId, Rng, Time};

use super::config::XgmConfig;
use super::wire::{Answer, HEARD_MAX, Poll};
use super::{Census, CensusHost, CensusRequest, Subgroups};

/// The number of positions.
const POSITIONS: u64 = 1 << 32;
/// The width of the first slice.
const WIDTH_FIRST: u64 = POSITIONS / 256;
/// The longest time from one poll to the next, whatever the round trip.
const INTERVAL_MAX: Duration = Duration::from_secs(1);
/// The census remembers when it sent this many of its last polls, to learn the round trip from late
/// answers.
const SENT_MAX: usize = 256;

/// The position of `host` in the census `census` of `asker`.
pub(super) fn position(asker: Incarnation, census: u32, host: Incarnation) -> u32 {
    let census = Rng::new(asker.0).fork_index(u64::from(census));
    census.fork_index(host.0).next_u64() as u32
}

/// A census under way.
#[derive(Debug)]
pub(super) struct Asking {
    asker: Incarnation,
    number: u32,
    request: CensusRequest,
    config: XgmConfig,
    began: Time,
    /// When the last poll went, if one has.
    polled: Option<Time>,
    /// Where the next slice begins.
    cursor: u64,
    width: u64,
    trips: Trips,
    /// How many polls there were, and when the last [`SENT_MAX`] were sent, by their numbers.
    polls: u32,
    sent: VecDeque<(u16, Time)>,
    /// Hosts that have answered for the first time since the last poll.
    answers: u32,
    hosts: BTreeMap<(u32, Incarnation), CensusHost>,
    /// When a new host answered last, and whether none has in this pass.
    news: Time,
    is_silent: bool,
    silent_passes: u32,
    /// All hosts were asked once.
    has_asked_all: bool,
    /// A host answered for which there was no room.
    is_cut: bool,
}

/// The longest round trips that answers have shown.
#[derive(Default, Debug)]
struct Trips {
    /// The longest, and the host that showed it.
    longest: Option<(MemberId, Duration)>,
    /// The longest that another host showed.
    next: Option<Duration>,
}

impl Trips {
    fn note(&mut self, from: MemberId, trip: Duration) {
        match self.longest {
            Some((host, longest)) if host == from => {
                self.longest = Some((from, longest.max(trip)));
            }
            Some((_, longest)) if trip <= longest => self.next = self.next.max(Some(trip)),
            before => {
                self.next = before.map(|(_, longest)| longest);
                self.longest = Some((from, trip));
            }
        }
    }

    /// What two hosts have shown. One alone is believed once `all` were asked: a false word, that
    /// an answer was on its way for long, would make the census ask hardly anybody in its time.
    fn believed(&self, all: bool) -> Duration {
        let alone = self.longest.filter(|_| all).map(|(_, trip)| trip);
        self.next.or(alone).unwrap_or_default()
    }
}

impl Asking {
    pub(super) fn new(
        asker: Incarnation,
        number: u32,
        request: CensusRequest,
        config: XgmConfig,
        now: Time,
    ) -> Self {
        Self {
            asker,
            number,
            request,
            config,
            began: now,
            polled: None,
            cursor: POSITIONS,
            width: WIDTH_FIRST,
            trips: Trips::default(),
            polls: 0,
            sent: VecDeque::new(),
            answers: 0,
            hosts: BTreeMap::new(),
            news: now,
            is_silent: false,
            silent_passes: 0,
            has_asked_all: false,
            is_cut: false,
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn asked(&self) -> Subgroups {
        self.request.subgroups
    }

    /// When [`next_poll`](Self::next_poll) is due.
    pub(super) fn due(&self) -> Time {
        // After silent passes few hosts can be missing: polls follow more slowly.
        let patience = 1 << self.silent_passes.min(3);
        let next = self.polled.map(|at| at + self.interval() * patience);
        let end = self.began + self.request.timeout;
        next.unwrap_or(self.began).min(end)
    }

    /// The time from one poll to the next: at least twice the round trip.
    fn interval(&self) -> Duration {
        let wanted = self.trips.believed(self.has_asked_all) * 2 + self.spread();
        self.config.interval.max(wanted.min(INTERVAL_MAX))
    }

    /// Notes the answer of a host. The last answer of a host counts.
    pub(super) fn hear(&mut self, now: Time, from: MemberId, answer: &Answer) {
        self.measure(now, from, answer);
        let host = CensusHost {
            member: from,
            name: answer.list.as_ref().map(|list| list.name.clone()),
            members: answer.members,
            subgroups: answer.union,
            list: answer.list.as_ref().map(|list| list.members.clone()),
        };
        self.count(now, host);
    }

    /// Counts `host`, if there is room.
    pub(super) fn count(&mut self, now: Time, host: CensusHost) {
        let incarnation = host.member.incarnation;
        let place = (position(self.asker, self.number, incarnation), incarnation);
        if !self.hosts.contains_key(&place) {
            if self.hosts.len() >= self.config.hosts_max {
                self.is_cut = true;
                return;
            }
            self.answers += 1;
            self.news = now;
            self.is_silent = false;
        }
        self.hosts.insert(place, host);
    }

    /// Notes the round trip that `answer` shows.
    fn measure(&mut self, now: Time, from: MemberId, answer: &Answer) {
        let poll = self
            .sent
            .iter()
            .rev()
            .find(|(poll, _)| *poll == answer.poll);
        if let Some((_, sent)) = poll {
            let trip = (now - *sent).saturating_sub(answer.held);
            self.trips.note(from, trip);
        }
    }

    /// The time over which hosts spread their answers to a poll.
    fn spread(&self) -> Duration {
        self.config.interval / 2
    }

    /// The poll that is due, or what the census has found once it is over.
    pub(super) fn next_poll(&mut self, now: Time) -> Result<Poll, Census> {
        if now >= self.began + self.request.timeout {
            return Err(self.result(now, false));
        }
        self.widen();
        if self.cursor >= POSITIONS {
            if self.polls > 1 {
                self.has_asked_all = true;
                self.end_pass();
            }
            let is_quiet = now - self.news >= self.config.quiet;
            if self.silent_passes >= self.config.silent_passes.max(1) && is_quiet {
                return Err(self.result(now, true));
            }
            if self.polls > 0 {
                self.cursor = 0;
                self.is_silent = true;
            }
        }
        Ok(self.poll(now))
    }

    fn end_pass(&mut self) {
        self.silent_passes = match self.is_silent {
            true => self.silent_passes.saturating_add(1),
            false => 0,
        };
    }

    /// Sets the width of the next slice, so that by the last answers it holds as many hosts as
    /// wanted.
    fn widen(&mut self) {
        let answers = u64::from(core::mem::take(&mut self.answers));
        // The first poll asks no host: with it the hosts and the asker admit each other.
        if self.polls > 1 {
            let wanted = u64::from(self.config.answers_wanted.max(1));
            let width = self.width.saturating_mul(wanted) / answers.max(wanted.div_ceil(4));
            self.width = width.clamp(1, POSITIONS);
        }
    }

    fn poll(&mut self, now: Time) -> Poll {
        self.polls = self.polls.saturating_add(1);
        // A poll has the number of its count modulo 2^16: far more than the polls whose answers may
        // still be on their way.
        let number = self.polls as u16;
        let first = self.cursor;
        let mut end = (first + self.width).min(POSITIONS);
        let mut heard = Vec::new();
        let from = (u32::try_from(first).unwrap_or(u32::MAX), Incarnation(0));
        for (position, incarnation) in self.hosts.range(from..).map(|(place, _)| *place) {
            let position = u64::from(position);
            if first >= POSITIONS || position >= end {
                break;
            }
            if heard.len() >= HEARD_MAX && position > first {
                end = position;
                break;
            }
            heard.push(incarnation);
        }
        heard.truncate(HEARD_MAX);
        let (first, last) = match first < POSITIONS {
            true => (first as u32, (end - 1) as u32),
            false => (1, 0),
        };
        self.cursor = end;
        self.sent.push_back((number, now));
        if self.sent.len() > SENT_MAX {
            self.sent.pop_front();
        }
        self.polled = Some(now);
        Poll {
            census: self.number,
            number,
            list: self.request.list,
            asked: self.request.subgroups,
            first,
            last,
            spread: self.spread(),
            heard,
        }
    }

    fn result(&mut self, now: Time, ended_by_itself: bool) -> Census {
        let hosts: Vec<CensusHost> = core::mem::take(&mut self.hosts).into_values().collect();
        let unions = hosts.iter().map(|host| host.subgroups);
        Census {
            number: self.number,
            hosts: hosts.len(),
            members: hosts.iter().map(|host| u64::from(host.members)).sum(),
            subgroups: unions.fold(Subgroups::NONE, Subgroups::union),
            list: self.request.list.then_some(hosts),
            complete: ended_by_itself && !self.is_cut,
            polls: self.polls,
            took: now - self.began,
        }
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::NodeId;

    use super::*;

    /// The numbers of polls are used again after 65,536 of them. A late answer still shows the
    /// round trip, and polls wait for it.
    #[test]
    fn a_census_of_more_polls_than_there_are_numbers_still_measures_the_round_trip() {
        const POLLS: u32 = (1 << 16) + 100;
        let config = XgmConfig {
            silent_passes: u32::MAX,
            ..XgmConfig::default()
        };
        let request = CensusRequest {
            timeout: Duration::from_secs(1 << 20),
            ..CensusRequest::default()
        };
        let mut now = Time::ZERO;
        let mut asking = Asking::new(Incarnation(1), 1, request, config, now);
        let mut numbers = Vec::new();
        for _ in 0..POLLS {
            now += config.interval;
            let poll = asking.next_poll(now).expect("it goes on");
            numbers.push(poll.number);
        }
        let late = numbers.len() - 1 - 20;
        assert_eq!(numbers[late..].len(), 21);
        assert!(numbers[late + 1..].iter().all(|it| *it != numbers[late]));
        let from = MemberId {
            node: NodeId(2),
            incarnation: Incarnation(2),
        };
        let answer = Answer {
            census: 1,
            poll: numbers[late],
            held: Duration::ZERO,
            union: Subgroups::ALL,
            members: 1,
            list: None,
        };
        asking.hear(now, from, &answer);
        let round_trip = config.interval * 20;
        let interval = asking.interval();
        assert!(interval >= round_trip * 2, "{interval:?}");
        assert_eq!(asking.result(now, true).polls, POLLS);
    }

    /// Answers of 100 hosts, of which the first one says each time that its answer was on its way
    /// for as long as can be.
    #[test]
    fn one_host_does_not_slow_a_census_down_by_what_it_says_of_its_answer() {
        let config = XgmConfig::default();
        let host = |node: u64| MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        };
        let run = |lies: bool| {
            let asker = Incarnation(1_000);
            let mut now = Time::ZERO;
            let mut asking = Asking::new(asker, 1, CensusRequest::default(), config, now);
            let mut first = None;
            loop {
                now = asking.due();
                let poll = match asking.next_poll(now) {
                    Ok(poll) => poll,
                    Err(census) => return census,
                };
                first.get_or_insert(poll.number);
                for node in 0..100 {
                    let lies = lies && node == 0;
                    let slice = poll.first..=poll.last;
                    let place = position(asker, 1, host(node).incarnation);
                    if !lies && !slice.contains(&place) {
                        continue;
                    }
                    let answer = Answer {
                        census: 1,
                        poll: first.filter(|_| lies).unwrap_or(poll.number),
                        held: Duration::ZERO,
                        union: Subgroups::ALL,
                        members: 1,
                        list: None,
                    };
                    let heard = now + Duration::from_millis(if lies { 0 } else { 1 });
                    asking.hear(heard, host(node), &answer);
                }
            }
        };
        for lies in [false, true] {
            let census = run(lies);
            assert_eq!((census.hosts, census.complete), (100, true), "{census:?}");
            assert!(census.took < Duration::from_secs(1), "{census:?}");
        }
    }

    /// Of two hosts whose round trips are long the shorter one counts, and of one alone its own.
    #[test]
    fn a_long_round_trip_is_believed_when_two_show_it_or_nobody_else_is_there() {
        let host = |node: u64| MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        };
        let at = Duration::from_millis;
        let mut trips = Trips::default();
        trips.note(host(1), at(300));
        assert_eq!(trips.believed(false), Duration::ZERO);
        assert_eq!(trips.believed(true), at(300));
        trips.note(host(1), at(200));
        trips.note(host(2), at(5));
        assert_eq!(trips.believed(true), at(5));
        trips.note(host(3), at(400));
        assert_eq!(trips.believed(false), at(300));
        trips.note(host(2), at(250));
        assert_eq!(trips.believed(false), at(300));
    }
}
