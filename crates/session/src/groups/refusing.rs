//! Refuses clients' requests to a ring that this daemon cannot be in, if the reason does not pass
//! by itself: the client gets the reason instead of waiting. Drops those of a client that holds too
//! much.

use std::collections::VecDeque;

use groupcast_core::Time;

use super::client::Pending;
use super::exchange::Phase;
use super::moving::OF_ENGINE;
use super::orders::OrderIndex;
use super::{ClientId, Engine};
use crate::frame::{BusRequest, DaemonFrame, Reject, Request, credit_cost};

impl Engine {
    /// The daemon cannot join the ring `index`, for the reason `why`: refuses all requests that
    /// wait for the ring. Has no effect while the daemon is in the ring.
    pub fn refuse_ring(&mut self, now: Time, index: usize, why: &str) {
        let on = OrderIndex::of_ring(index);
        let Some(top) = self.rings.top(on).cloned() else {
            return;
        };
        if !matches!(self.orders[on].phase, Phase::Starting) {
            return;
        }
        let text = format!(
            "the daemon {} cannot be in the ring {top:?}: {why}",
            self.host
        );
        for id in self.clients.ids() {
            self.refuse_all(on, now, id, &text);
        }
        for on in self.orders.indices() {
            self.tell_guests(on, now);
        }
    }

    /// Refuses all requests of a client that wait for an order.
    fn refuse_all(&mut self, on: OrderIndex, now: Time, id: ClientId, text: &str) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let requests = std::mem::take(&mut client.orders[on].requests);
        if requests.is_empty() {
            return;
        }
        client.orders[on].in_turn = false;
        self.orders[on].submissions.forget_turn(id);
        let mut says_bye = false;
        for request in requests {
            self.take_back(id, &request);
            match request {
                Pending::Disconnect => says_bye = true,
                request => self.refuse_request(on, now, id, request, text),
            }
        }
        if says_bye {
            self.left_order(on, now, id);
        }
    }

    /// Drops all that a client has asked for and that waits, but its leaving.
    pub(super) fn drop_requests(&mut self, now: Time, id: ClientId, text: &str) {
        for on in self.orders.indices() {
            let Some(client) = self.clients.get_mut(id) else {
                return;
            };
            let of = &mut client.orders[on];
            let requests = std::mem::take(&mut of.requests).into_iter();
            let (kept, dropped): (VecDeque<_>, VecDeque<_>) =
                requests.partition(|request| matches!(request, Pending::Disconnect));
            of.requests = kept;
            if of.in_turn && of.requests.is_empty() {
                of.in_turn = false;
                self.orders[on].submissions.forget_turn(id);
            }
            for request in dropped {
                self.take_back(id, &request);
                self.refuse_request(on, now, id, request, text);
            }
            self.tell_guests(on, now);
        }
        if self.drop_bimodal(id) {
            self.go_on_leaving(now, id);
        }
    }

    fn refuse_request(
        &mut self,
        on: OrderIndex,
        now: Time,
        id: ClientId,
        request: Pending,
        text: &str,
    ) {
        let code = Reject::Other;
        match request {
            Pending::Join(group) => {
                self.clients.unwant(id, &group);
                self.routes_changed();
                let join = Request::Join(group.to_string());
                self.reject(now, id, join, code, text.to_owned());
            }
            Pending::Publish(publish) => {
                self.give_back(id, credit_cost(publish.stream_len()) as u64);
                if let Some(client) = self.clients.get_mut(id) {
                    client.turned_away(publish.number);
                }
                let publish = Request::Publish(publish.number);
                self.reject(now, id, publish, code, text.to_owned());
            }
            Pending::Bus(token, request) => {
                // The pattern was never accepted there, so taking it back is done.
                let takes_back = matches!(request, BusRequest::Reject { .. });
                if let BusRequest::Accept { group, pattern, .. } = &request
                    && self.clients.unwant_pattern(id, group, pattern) == Some(true)
                {
                    self.clients.unwant(id, group);
                    self.routes_changed();
                }
                let result = match takes_back {
                    true => Ok(()),
                    false => Err((code, text.to_owned())),
                };
                if token != OF_ENGINE {
                    self.journal.counters.rejected += u64::from(result.is_err());
                    self.tell(now, id, &DaemonFrame::Done { token, result });
                }
            }
            Pending::Guest(request) => self.end_guest_request(on, now, id, request, text),
            Pending::Leave(_) | Pending::Disconnect => {}
        }
    }
}
