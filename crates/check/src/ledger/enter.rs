//! How an observation becomes facts: the one place where the ledger changes after names have their
//! indices.

use groupcast_core::{ConfigurationKind, Service};

use super::Ledger;
use super::record::{
    Account, ConfigIx, MemberIx, MessageIx, SetIx, Sighting, Step, Submission, Transition,
};
use crate::outcome::Ending;

impl Ledger {
    /// Enters `step`, which `observer` saw.
    pub(crate) fn enter(&mut self, observer: MemberIx, step: &Step<'_>) {
        let life = &mut self.lives[observer.get()];
        life.lines += 1;
        match *step {
            Step::Start => {}
            Step::Submit {
                message,
                id,
                service,
                digest,
            } => {
                life.submitted = life.submitted.max(id.number);
                let message = &mut self.messages[message.get()];
                if id.sender == life.id && message.submission.is_none() {
                    message.submission = Some(Submission {
                        service,
                        digest,
                        after: life.last,
                        closed: life.closed(),
                    });
                }
            }
            Step::Deliver {
                message,
                service,
                digest,
                spot,
            } => {
                let sighting = Sighting {
                    by: observer,
                    service,
                    digest,
                    spot,
                };
                self.enter_delivery(observer, message, sighting);
            }
            Step::Install { kind, config, set } => self.enter_install(observer, kind, config, set),
            Step::Enrolled { message } => {
                self.enrolled.entry(message).or_default().insert(observer);
            }
            Step::Held { message } => {
                self.held.entry(message).or_default().insert(observer);
            }
            Step::AllHold { message, holders } => {
                self.all_hold
                    .entry(message)
                    .or_insert((observer, holders.into()));
            }
            Step::Account {
                message,
                complete,
                failed,
            } => {
                let account = Account {
                    by: observer,
                    complete: complete.into(),
                    failed: failed.into(),
                };
                let number = self.messages[message.get()].id.number;
                life.accounted = life.accounted.max(number);
                self.accounts.entry(message).or_insert(account);
            }
            Step::GroupView {
                group,
                view,
                name,
                members,
            } => {
                let moment = life.moment();
                let view = view
                    .unwrap_or_else(|| self.views.insert(group, name, members, observer, moment));
                self.views.enter(group, observer, view);
            }
            Step::Gap {
                sender,
                first,
                last,
            } => life.report(sender, first, last),
            Step::Asked { request, client } => self.guests.ask(request, observer, client),
            Step::Replied {
                request, client, ..
            } => self.guests.reply(request, observer, client),
            Step::Granted {
                ref role,
                client,
                place,
            } => self.guests.grant(observer, role.clone(), client, place),
            Step::Freed { ref role, .. } => self.guests.free(observer, role.clone()),
            Step::Leave => life.ended = Some(Ending::Left),
            Step::Crash => life.ended = Some(Ending::Crashed),
        }
    }

    fn enter_delivery(&mut self, observer: MemberIx, ix: MessageIx, sighting: Sighting) {
        self.deliveries += 1;
        let life = &mut self.lives[observer.get()];
        let message = &mut self.messages[ix.get()];
        let is_first = message.sighting.is_none();
        message.sighting.get_or_insert(sighting);
        let Some(spot) = sighting.spot else {
            if sighting.service != Service::Unreliable {
                let (sender, number) = (message.sender, message.id.number);
                life.deliver_unplaced(ix, sender, number, sighting.service);
            }
            return;
        };
        if !life.deliver(ix, message.sender, message.id.number, spot) {
            return;
        }
        if life.in_regular() {
            message.regular_at.get_or_insert(observer);
        }
        if is_first {
            let order = &mut self.configs[spot.config.get()].order;
            order.entry(spot.seq).or_insert(ix);
        }
    }

    fn enter_install(
        &mut self,
        observer: MemberIx,
        kind: ConfigurationKind,
        config: ConfigIx,
        set: SetIx,
    ) {
        let life = &mut self.lives[observer.get()];
        if kind == ConfigurationKind::Transitional {
            life.install_transitional(set);
            return;
        }
        if let Some((stay, last)) = life.stays.iter().enumerate().next_back()
            && let Some(transitional) = &last.transitional
        {
            let transition = Transition {
                set: transitional.set,
                by: observer,
                stay,
            };
            self.transitions
                .entry((last.config, config))
                .or_insert(transition);
        }
        let record = &mut self.configs[config.get()];
        record.installed.get_or_insert((set, observer));
        life.install_regular(config, record.id.counter);
    }
}
