//! An epoch that has ended: how it was sent, what its paths show, and what follows from that.

use core::time::Duration;

use groupcast_core::Time;

use super::few::{Few, Step};
use super::path::{Found, Heard, Least, Path, Sent};
use super::{Epoch, Far, Rate};

/// How an epoch was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// When it ended, and how many seconds it lasted.
    pub(super) at: Time,
    pub(super) length: f64,
    /// Bytes of a packet.
    pub(super) packet: usize,
    pub(super) receivers: u32,
    /// The rate; what of it the epoch was to be sent at; and what was sent, in bytes a second.
    pub(super) rate: f64,
    pub(super) pace: f64,
    pub(super) achieved: f64,
    /// Whether what was sent is most of what was allowed, and whether there was nothing to send
    /// for most of the time.
    pub(super) used_up: bool,
    pub(super) is_idle: bool,
    /// Whether it was sent at a lower rate, or is the first: it shows what no queue adds to.
    pub(super) is_unqueued: bool,
    /// Whether it shows what the rate before it did.
    pub(super) settles: bool,
    /// What waited in this host all through it, and whether that is a queue.
    pub(super) own: Duration,
    pub(super) is_own: bool,
    /// Bytes a second that are this rate's part of what this host's link carries, if it carries
    /// others, too.
    pub(super) own_share: Option<f64>,
    /// The shortest queue that shows.
    least: Least,
}

impl Rate {
    /// The epoch ends, and the next one begins.
    pub(super) fn close_epoch(
        &mut self,
        now: Time,
        rate: f64,
        pace: f64,
        packet: usize,
        receivers: u32,
    ) -> Ended {
        let is_probe = self.is_probe();
        let length = (now - self.epoch_began).as_secs_f64();
        let used = self.bucket.used();
        let used_up = used as f64 / length.max(1e-9) >= 0.75 * pace;
        let idle = self.idle.take(now).as_secs_f64();
        // A burst after a pause is no measure of what goes through.
        let is_idle = idle > length / 2.0;
        let achieved = match is_idle {
            true => rate,
            false => used as f64 / (length - idle).max(1e-9),
        };
        self.epoch_began = now;
        self.epoch = self.epoch.next();
        let leaves = self.bucket.leaves(packet);
        let once = self.bucket.end_epoch();
        if used_up && once > 0 {
            self.fan_out_found = Some(used as f64 / once as f64);
        }
        let least = self.yields.then(|| Least::at(rate, leaves, receivers));
        let least = least.unwrap_or(Least::WITHOUT_STAMPS);
        let own = self.host_queue.take_queue(achieved);
        let whole = 1.0 + Self::OWN_OVERHEAD as f64 / packet as f64;
        let carried = self.host_queue.take_carried();
        let shared = carried.filter(|it| it.own * whole < it.all * Self::OWN_ALONE);
        let own_share = shared.map(|it| it.all / whole * Self::OWN_SHARE);
        let own_stays = match own_share {
            Some(_) => Self::OWN_STAYS_SHARED,
            None => Self::OWN_STAYS,
        };
        let is_own = own > own_stays.max(least.waits());
        let least = least.beside(own);
        Ended {
            at: now,
            length,
            packet,
            receivers,
            rate,
            pace,
            achieved,
            used_up,
            is_idle,
            is_unqueued: is_probe || self.epoch == Epoch(1),
            settles: core::mem::take(&mut self.settling),
            own,
            is_own,
            own_share,
            least: match self.own {
                0 => least,
                _ => least.tolerates(Self::OWN_QUEUE),
            },
        }
    }

    /// What the paths show.
    pub(super) fn look_at<'a>(
        &mut self,
        ended: &Ended,
        paths: impl Iterator<Item = &'a mut Path>,
    ) -> Found {
        let mut found = Found::default();
        let sent = Sent {
            pace: ended.pace,
            packet: ended.packet,
            is_sought: self.starting,
            has_rivals: self.rivals.are_there(),
        };
        let (leaps, verdict) = (self.few.leaps(), self.few.take_verdict());
        for path in paths {
            path.hear_verdict(verdict);
            found.counted.blamed += u32::from(path.is_blamed());
            found.believes_much_loss |= path.believes_much_loss();
            if !leaps {
                path.leaps_not();
            }
            let is_asked = !leaps || !path.is_blamed();
            let epoch = match path.end_epoch(self.yields) {
                Heard::Enough(epoch) => epoch,
                Heard::TooLittle(_) if is_asked && path.may_be_far(ended.at) => {
                    found.is_awaited = true;
                    continue;
                }
                Heard::TooLittle(unheard) if is_asked => {
                    found.is_missed |= path.has_limited();
                    // Who has been silent for longer does not wait behind a queue.
                    let silent = f64::from(unheard) * ended.length;
                    if unheard < 3 * Self::UNHEARD_MAX || silent < 1.0 {
                        found.unheard = found.unheard.max(unheard);
                    }
                    continue;
                }
                Heard::TooLittle(_) | Heard::NothingSent => continue,
            };
            if !ended.is_unqueued {
                path.note_shorter(&epoch);
            }
            if ended.settles {
                found.any |= is_asked;
            } else if !ended.is_unqueued && path.is_unmeasured() {
                let is_long = path.note_unqueued(&epoch) >= Self::FAR;
                found.is_far |= is_long || epoch.loses_much();
                found.any |= is_asked;
            } else if ended.is_unqueued {
                found.is_far |= path.is_unmeasured() && epoch.loses_much();
                path.note_unqueued(&epoch);
                let stays = self.yields && path.stays(&epoch, ended.least);
                found.is_outrun |= self.yields && path.was_outrun(&epoch, ended.pace, ended.least);
                found.own_loss &= path.read_probe(&epoch, stays, self.starting);
                found.any = true;
            } else {
                let judged = match self.yields {
                    true => path.judge_each(&epoch, &sent, ended.least),
                    false => path.judge(&epoch, ended.least),
                };
                found.is_far |= sent.is_sought && epoch.loses_much() && !judged.is_queued();
                if is_asked {
                    found.add(judged);
                    path.note_limiting(&judged);
                } else {
                    path.note_leap(&judged);
                }
            }
        }
        found
    }

    /// Nobody was heard who is asked.
    pub(super) fn note_unheard(&mut self, ended: &Ended) {
        self.settling = ended.settles;
        let patience = self.patience(ended.length);
        if let Some(before) = self.few.unheard(ended.at, patience) {
            self.settling = true;
            self.rate = Some(before);
        }
    }

    /// What an epoch says that was sent at a lower rate, or is the first.
    pub(super) fn learn_unqueued(&mut self, ended: &Ended, found: &Found) {
        // What is on its way was sent before.
        self.settling = true;
        self.far = match self.far {
            Far::No if self.is_in_doubt(found) => Far::LookedInto,
            Far::LookedInto => Far::Known,
            far => far,
        };
        let trial = self.trial.take();
        if found.is_outrun {
            // As much comes through at this rate.
            self.rate = Some(ended.pace.max(Self::MIN.min(self.max)));
            self.starting = false;
        } else if let Some(trial) = trial.filter(|_| found.own_loss) {
            self.rate = Some(trial.rate);
            self.starting = trial.starting;
        }
    }

    /// The rate becomes what follows from an epoch that was judged.
    pub(super) fn adapt(&mut self, ended: &Ended, found: &Found) {
        let (now, receivers) = (ended.at, ended.receivers);
        let patience = self.patience(ended.length);
        let is_silent = found.unheard >= patience;
        let silent = (is_silent || found.is_awaited) && self.yields;
        let took = ended.used_up
            && !silent
            && !ended.is_own
            && found.is_clear()
            && found.counted.clear * 2 >= receivers;
        if let Some(step) = self.few.step(now, took) {
            self.settling = true;
            match step {
                Step::At(rate) => self.rate = Some(rate),
                // The rate of the others is sought.
                Step::Proven => self.starting = true,
            }
            return;
        }
        let falls = found.unheard.is_multiple_of(Self::UNHEARD_MAX * patience);
        if is_silent && falls && self.yields {
            return self.unheard();
        }
        let next = self.next(ended, found, silent);
        self.settles_for = Duration::ZERO;
        if next < ended.rate {
            self.settles_for = found.limiting.round_trip;
            self.regains = 0.0;
            self.few.fell(now, found.counted, receivers);
        }
        let next = next.clamp(Self::MIN.min(self.max), self.max);
        self.rate = Some(next);
        let has_room = next * Few::TIMES <= self.max;
        if has_room
            && self.trial.is_none()
            && let Some(leap) = self.few.begin(now, next, found.counted, receivers)
        {
            self.settling = true;
            self.draining = None;
            self.rate = Some(leap);
        }
    }

    /// Whether a long way, or what is lost on it, is to be looked into.
    pub(super) fn is_in_doubt(&self, found: &Found) -> bool {
        found.is_far && self.yields && !self.few.leaps()
    }

    /// In so many epochs of `length` seconds a receiver has been asked twice.
    fn patience(&self, length: f64) -> u32 {
        let asked = 2.0 * self.asking.every().as_secs_f64() / length.max(1e-3);
        (asked as u32).max(1)
    }
}
