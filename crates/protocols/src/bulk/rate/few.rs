//! The few receivers that hold the rate of all far below what the others take: whether they do, is
//! found by a leap.
//!
//! Congestion that most see is followed, whatever it costs. But if for a while the rate has fallen
//! for a few only, while the paths of the others showed neither a queue nor a loss, it doubles
//! twice without asking the few. If the others take that, each time through a whole epoch, the few
//! are better served later: what is left for them takes no longer than before, but for the time
//! that the others take. Who was blamed, and took the leap as well as the others, stays with them.
//! If not, the rate is what it was, and the next leap waits, longer each
//! time.

use core::time::Duration;

use groupcast_core::Time;

/// Whether a few receivers hold the rate, and whether the others would take more.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Few {
    /// How long they may; `None`: they may for ever.
    patience: Option<Duration>,
    /// Whether one of two counts as few.
    one_of_two: bool,
    /// Since when the rate has fallen for a few only, and how often.
    since: Option<Time>,
    falls: u32,
    leap: Option<Leap>,
    /// Leaps in vain in a row, and when the next may begin.
    vain: u32,
    earliest: Time,
    /// What the last epoch says of those that limited the rate in it.
    verdict: Verdict,
    /// A leap has come off: those that are blamed are to be left behind.
    proven: bool,
}

/// The rate is raised without asking the few.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leap {
    /// The rate before.
    before: f64,
    /// What it is raised to.
    rate: f64,
    /// Epochs in a row in which nobody was heard whom it asks.
    unheard: u32,
}

/// What becomes of the blame of receivers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Verdict {
    /// It stays with whom it is.
    #[default]
    Open,
    /// Those that limited the rate in the last epoch get it, too.
    Blamed,
    /// Nobody is blamed.
    Absolved,
}

/// How many receivers an epoch shows to be what.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counted {
    /// With a queue that stays, or congestion.
    pub(super) limiting: u32,
    /// With neither, nor any sign of them.
    pub(super) clear: u32,
    /// Those that are blamed.
    pub(super) blamed: u32,
}

/// What a leap comes to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// It goes on, or ends, at this rate.
    At(f64),
    /// It has come off.
    Proven,
}

impl Few {
    /// The rate has fallen so often for a few only.
    const FALLS: u32 = 3;
    /// The others have to take so many times the rate.
    pub(super) const TIMES: f64 = 4.0;
    /// After a leap in vain so many times the patience goes by, twice as many each time.
    const VAIN_WAIT: u32 = 8;
    const VAIN_DOUBLINGS: u32 = 5;

    /// A few may hold the rate for so long. They are at most a third of all, and also one of two
    /// with `one_of_two`.
    pub(super) fn of(patience: Option<Duration>, one_of_two: bool) -> Self {
        Self {
            patience,
            one_of_two,
            ..Self::default()
        }
    }

    /// Nothing is known yet, and the same patience holds.
    pub(super) fn anew(&self) -> Self {
        Self::of(self.patience, self.one_of_two)
    }

    fn are_few(&self, number: u32, receivers: u32) -> bool {
        number * 3 <= receivers || self.one_of_two && number <= 1 && receivers == 2
    }

    /// Whether the rate is raised without asking those that are blamed.
    pub(super) fn leaps(&self) -> bool {
        self.leap.is_some()
    }

    /// What becomes of those that are blamed, and of those that limited the rate in the last epoch.
    pub(super) fn take_verdict(&mut self) -> Verdict {
        core::mem::take(&mut self.verdict)
    }

    /// Whether those that are blamed are to be left behind; asked once.
    pub(super) fn take_proven(&mut self) -> bool {
        core::mem::take(&mut self.proven)
    }

    /// The rate has fallen for what an epoch has shown of so many receivers.
    pub(super) fn fell(&mut self, now: Time, counted: Counted, receivers: u32) {
        let are_few = counted.limiting > 0 && self.are_few(counted.limiting, receivers);
        if are_few && counted.clear * 2 >= receivers {
            self.since.get_or_insert(now);
            self.falls += 1;
            self.verdict = Verdict::Blamed;
        } else {
            self.absolve();
        }
    }

    /// Nothing is heard: nothing is learnt of anybody. The rate before the leap, if there is one.
    pub(super) fn abandon(&mut self) -> Option<f64> {
        self.absolve();
        self.leap.take().map(|leap| leap.before)
    }

    /// An epoch is over in which nobody was heard whom a leap asks: the rate, if it ends because
    /// there were more than `patience` of them in a row.
    pub(super) fn unheard(&mut self, now: Time, patience: u32) -> Option<f64> {
        let leap = self.leap.as_mut()?;
        leap.unheard += 1;
        let (is_over, before) = (leap.unheard > patience, leap.before);
        if !is_over {
            return None;
        }
        self.step(now, false);
        Some(before)
    }

    /// Somebody was heard whom a leap asks.
    pub(super) fn heard(&mut self) {
        if let Some(leap) = &mut self.leap {
            leap.unheard = 0;
        }
    }

    fn absolve(&mut self) {
        self.since = None;
        self.falls = 0;
        self.verdict = Verdict::Absolved;
    }

    /// An epoch is over, after which the rate is `rate`: that of a leap, if one begins.
    pub(super) fn begin(
        &mut self,
        now: Time,
        rate: f64,
        counted: Counted,
        receivers: u32,
    ) -> Option<f64> {
        if !self.are_few(counted.blamed, receivers) {
            // One after the other: it is chance, or what all share.
            self.absolve();
        }
        let (patience, since) = (self.patience?, self.since?);
        let is_due = now - since >= patience && now >= self.earliest;
        if !is_due || self.falls < Self::FALLS || self.verdict != Verdict::Open {
            return None;
        }
        let leap = Leap {
            before: rate,
            rate: rate * 2.0,
            unheard: 0,
        };
        self.leap = Some(leap);
        Some(leap.rate)
    }

    /// An epoch of a leap is over: whether all that are not blamed took it.
    pub(super) fn step(&mut self, now: Time, took: bool) -> Option<Step> {
        let leap = self.leap.as_mut()?;
        if !took {
            let before = leap.before;
            let waits = self.patience.unwrap_or_default() * Self::VAIN_WAIT;
            self.earliest = now + waits * (1 << self.vain.min(Self::VAIN_DOUBLINGS));
            self.vain += 1;
            self.leap = None;
            self.absolve();
            return Some(Step::At(before));
        }
        if leap.rate < leap.before * Self::TIMES {
            leap.rate *= 2.0;
            return Some(Step::At(leap.rate));
        }
        *self = Self {
            proven: true,
            // Who is not left behind took it, too.
            verdict: Verdict::Absolved,
            ..self.anew()
        };
        Some(Step::Proven)
    }
}
