//! What the processes did for each message, beside the least that is possible.

use std::fmt;

use serde::Serialize;

use super::Counts;

/// What a process is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Daemons.
    Daemons,
    /// Clients that send.
    Senders,
    /// Clients that receive.
    Receivers,
    /// Clients that send and receive.
    Clients,
    /// Processes with the protocol in them, which send and receive.
    Members,
}

impl Role {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Daemons => "daemons",
            Self::Senders => "senders",
            Self::Receivers => "receivers",
            Self::Clients => "clients",
            Self::Members => "members",
        }
    }
}

/// What all processes of a role have done.
#[derive(Clone, PartialEq, Debug)]
pub struct Done {
    /// What they are for.
    pub role: Role,
    /// How many there are.
    pub processes: usize,
    /// Times that one of them slept and was woken.
    pub wakings: u64,
    /// Times that a processor was given up, to sleep or to another process.
    pub switches: u64,
    /// Processor seconds, user and system.
    pub cpu_s: f64,
    /// What they counted themselves.
    pub counts: Counts,
}

impl Done {
    /// Nothing yet.
    pub(super) fn none(role: Role, processes: usize) -> Self {
        Self {
            role,
            processes,
            wakings: 0,
            switches: 0,
            cpu_s: 0.0,
            counts: Counts::default(),
        }
    }

    /// What was done since `before`.
    pub(in super::super) fn since(&self, before: &Self) -> Self {
        Self {
            role: self.role,
            processes: self.processes,
            wakings: self.wakings.saturating_sub(before.wakings),
            switches: self.switches.saturating_sub(before.switches),
            cpu_s: self.cpu_s - before.cpu_s,
            counts: self.counts - before.counts,
        }
    }

    fn plus(&self, other: &Self) -> Self {
        Self {
            role: self.role,
            processes: self.processes,
            wakings: self.wakings + other.wakings,
            switches: self.switches + other.switches,
            cpu_s: self.cpu_s + other.cpu_s,
            counts: self.counts + other.counts,
        }
    }
}

/// What was done within the windows of one run, or of several.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(into = "Wakes")]
pub struct Work {
    /// Hosts.
    pub hosts: usize,
    /// Whether senders keep to a schedule, and so sleep before each message.
    pub is_paced: bool,
    /// Messages that were ordered: what a receiver got, on average.
    pub messages: u64,
    /// How long was counted.
    pub seconds: f64,
    /// By role.
    pub roles: Vec<Done>,
}

impl Work {
    /// All of it together; `None` of none.
    pub(in super::super) fn sum<'a>(runs: impl Iterator<Item = &'a Self>) -> Option<Self> {
        runs.cloned().reduce(|sum, run| Self {
            messages: sum.messages + run.messages,
            seconds: sum.seconds + run.seconds,
            roles: sum
                .roles
                .iter()
                .zip(&run.roles)
                .map(|(one, other)| one.plus(other))
                .collect(),
            ..sum
        })
    }

    fn total(&self, of: impl Fn(&Done) -> f64) -> f64 {
        self.roles.iter().map(of).sum()
    }

    fn per_message(&self, count: f64) -> f64 {
        count / self.messages.max(1) as f64
    }

    /// Rotations of the token: visits of a member. 0 without a ring.
    fn rotations(&self) -> f64 {
        self.total(|role| role.counts.visits as f64) / self.hosts as f64
    }
}

/// Which group the least wakings are asked of.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Group {
    /// Its hosts.
    pub hosts: usize,
    /// Whether members and clients are processes of their own.
    pub is_apart: bool,
    /// Whether a sender sleeps before each message.
    pub is_paced: bool,
}

impl Group {
    /// The least wakings of a message while the token goes round `rotations` times for each: each
    /// member wakes for the token, and each receiver for what a visit brought.
    pub fn least_rotating(self, rotations: f64) -> f64 {
        let n = self.hosts as f64;
        self.sender() + rotations * (n + self.receivers())
    }

    /// Those of a lone message, for which a resting token is called: the publish, three datagrams
    /// of a call (not if the publisher's member holds the token), the data at all other members,
    /// and each receiver.
    pub fn least_resting(self) -> f64 {
        let n = self.hosts as f64;
        let publish = if self.is_apart { 1.0 } else { 0.0 };
        let others = (n - 1.0) / n;
        self.sender() + publish + 3.0 * others + (n - 1.0) * others + self.receivers()
    }

    fn sender(self) -> f64 {
        if self.is_paced { 1.0 } else { 0.0 }
    }

    fn receivers(self) -> f64 {
        if self.is_apart {
            self.hosts as f64
        } else {
            0.0
        }
    }
}

/// The same, for each ordered message: what is printed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Wakes {
    /// Ordered messages that were counted.
    pub messages: u64,
    /// Times that a process slept and was woken.
    pub wakings: f64,
    /// The least that is possible with this many rotations; 0 without a ring.
    pub least_rotating: f64,
    /// The least that is possible for lone messages, for which a resting token is called.
    pub least_resting: f64,
    /// Times that a processor was given up, to sleep or to another process.
    pub switches: f64,
    /// System calls.
    pub calls: f64,
    /// Those that moved nothing, waits apart.
    pub calls_empty: f64,
    /// Rotations of the token a second; 0 without a ring.
    pub rotations_per_s: f64,
    /// Ordered messages a rotation; 0 without a ring.
    pub messages_per_rotation: f64,
    /// The same by role.
    pub roles: Vec<RoleWakes>,
}

/// What the processes of a role did for each ordered message, all together.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RoleWakes {
    /// What they are for.
    pub role: Role,
    /// How many there are.
    pub processes: usize,
    /// Times that one slept and was woken.
    pub wakings: f64,
    /// Times that a processor was given up.
    pub switches: f64,
    /// Processor time, in microseconds.
    pub cpu_us: f64,
    /// System calls by kind.
    pub calls: CallRates,
    /// Times that a timer of the protocol was due.
    pub timers: f64,
}

/// System calls by kind, for each ordered message; the kinds are those of [`Counts`].
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(transparent)]
pub struct CallRates(
    #[serde(serialize_with = "as_object")] pub [(&'static str, f64); Counts::KINDS],
);

fn as_object<S: serde::Serializer>(
    rates: &[(&'static str, f64); Counts::KINDS],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(rates.iter().copied())
}

impl From<Work> for Wakes {
    fn from(work: Work) -> Self {
        let per = |count: f64| work.per_message(count);
        let rotations = work.rotations();
        let group = Group {
            hosts: work.hosts,
            is_apart: work.roles.iter().all(|role| role.role != Role::Members),
            is_paced: work.is_paced,
        };
        let roles = work.roles.iter().map(|role| RoleWakes {
            role: role.role,
            processes: role.processes,
            wakings: per(role.wakings as f64),
            switches: per(role.switches as f64),
            cpu_us: per(role.cpu_s * 1e6),
            calls: CallRates(
                role.counts
                    .calls()
                    .map(|(kind, count)| (kind, per(count as f64))),
            ),
            timers: per(role.counts.timers as f64),
        });
        Self {
            messages: work.messages,
            wakings: per(work.total(|role| role.wakings as f64)),
            least_rotating: match rotations > 0.0 {
                true => group.least_rotating(per(rotations)),
                false => 0.0,
            },
            least_resting: group.least_resting(),
            switches: per(work.total(|role| role.switches as f64)),
            calls: per(work.total(|role| role.counts.total() as f64)),
            calls_empty: per(work.total(|role| role.counts.empty() as f64)),
            rotations_per_s: rotations / work.seconds,
            messages_per_rotation: match rotations > 0.0 {
                true => work.messages as f64 / rotations,
                false => 0.0,
            },
            roles: roles.collect(),
        }
    }
}

impl fmt::Display for Wakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            wakings,
            least_rotating,
            least_resting,
            switches,
            calls,
            calls_empty,
            rotations_per_s,
            messages_per_rotation,
            roles,
            ..
        } = self;
        writeln!(
            f,
            "wakings             {wakings:>10.2} a message; at least {least_rotating:.2} with so many rotations, \
             {least_resting:.2} for lone messages; {switches:.2} context switches"
        )?;
        writeln!(
            f,
            "system calls        {calls:>10.2} a message; {calls_empty:.2} of them moved nothing"
        )?;
        writeln!(
            f,
            "rotations           {rotations_per_s:>10.0} a second, {messages_per_rotation:.1} messages each"
        )?;
        for role in roles {
            writeln!(
                f,
                "  {:<17} {:>10.2} wakings, {:.2} switches, {:.1} µs of a processor, {:.2} timers",
                role.role.name(),
                role.wakings,
                role.switches,
                role.cpu_us,
                role.timers
            )?;
            let made = role.calls.0.iter().filter(|(_, rate)| *rate > 0.0);
            let made: Vec<_> = made
                .map(|(kind, rate)| format!("{rate:.2} {}", kind.replace('_', " ")))
                .collect();
            writeln!(f, "{:>30} {}", "", made.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(role: Role) -> Done {
        Done {
            role,
            processes: 5,
            wakings: 300,
            switches: 400,
            cpu_s: 0.001,
            counts: Counts {
                waits: 100,
                receives_empty: 50,
                visits: 250,
                ..Counts::default()
            },
        }
    }

    fn work() -> Work {
        Work {
            hosts: 5,
            is_paced: true,
            messages: 100,
            seconds: 2.0,
            roles: vec![done(Role::Daemons), done(Role::Receivers)],
        }
    }

    #[test]
    fn what_roles_did_adds_up_to_what_all_did() {
        let wakes = Wakes::from(work());
        assert_eq!((wakes.wakings, wakes.switches), (6.0, 8.0));
        assert_eq!((wakes.calls, wakes.calls_empty), (3.0, 1.0));
        assert_eq!(
            (wakes.rotations_per_s, wakes.messages_per_rotation),
            (50.0, 1.0)
        );
        let of = |figure: fn(&RoleWakes) -> f64| wakes.roles.iter().map(figure).sum::<f64>();
        assert_eq!(of(|role| role.wakings), wakes.wakings);
        let calls = |role: &RoleWakes| role.calls.0.iter().map(|(_, rate)| rate).sum::<f64>();
        assert_eq!(of(calls), wakes.calls);
    }

    #[test]
    fn several_runs_count_together() {
        let sum = Work::sum([work(), work()].iter()).unwrap();
        assert_eq!((sum.messages, sum.seconds), (200, 4.0));
        assert_eq!(
            Wakes::from(sum.clone()).wakings,
            Wakes::from(work()).wakings
        );
        assert_eq!(sum.roles[0].counts.waits, 200);
        assert_eq!(Work::sum([].iter()), None);
    }

    #[test]
    fn the_least_is_that_of_a_resting_token_or_of_a_full_rotation() {
        let group = |is_apart, is_paced| Group {
            hosts: 5,
            is_apart,
            is_paced,
        };
        // A timer, a publish, three datagrams of a call for four of five, 3.2 others, 5 receivers.
        assert!((group(true, true).least_resting() - 12.6).abs() < 1e-9);
        // 5.3 messages a rotation.
        let busy = group(true, true).least_rotating(1.0 / 5.3);
        assert!((busy - (1.0 + 10.0 / 5.3)).abs() < 1e-9);
        assert!((group(true, false).least_rotating(0.02) - 0.2).abs() < 1e-9);
        // A member is woken by its own timer, and not again to publish.
        assert!((group(false, true).least_resting() - 6.6).abs() < 1e-9);
    }

    #[test]
    fn kinds_have_their_names_in_json() {
        let json = serde_json::to_value(work()).unwrap();
        assert_eq!(json["roles"][0]["calls"]["receives_empty"], 0.5);
        assert_eq!(json["roles"][0]["role"], "daemons");
    }
}
