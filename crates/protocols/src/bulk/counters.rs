//! What a bulk endpoint counts, for measurements.

/// Counts since the start of an endpoint, of all its transfers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Data packets sent, repeated ones included.
    pub packets_sent: u64,
    /// Data packets sent again.
    pub packets_repeated: u64,
    /// Parity packets sent.
    pub parity_sent: u64,
    /// Data packets restored from parity.
    pub packets_restored: u64,
    /// Data packets received.
    pub packets_received: u64,
    /// Of those, such as were here before.
    pub duplicates: u64,
    /// Of those, such as there was no room for, or that came out of order where order is asked for.
    pub refused: u64,
    /// Acknowledgements sent.
    pub reports_sent: u64,
    /// Acknowledgements received.
    pub reports_received: u64,
    /// Requests for missing packets sent.
    pub naks_sent: u64,
    /// Requests for missing packets received.
    pub naks_received: u64,
    /// Requests not sent because another receiver had asked for the same.
    pub naks_suppressed: u64,
    /// Polls sent because nothing had moved.
    pub polls_sent: u64,
    /// Requests without data sent (policy `xtp`).
    pub requests_sent: u64,
    /// Requests that nobody answered in time.
    pub requests_unanswered: u64,
    /// Answers not sent because another receiver had said as much.
    pub answers_damped: u64,
    /// Answers received whose bucket was not open any more.
    pub answers_late: u64,
    /// Rounds begun (policy `multidriver`).
    pub rounds: u64,
    /// Rounds whose time was over before all had replied.
    pub rounds_partial: u64,
    /// Requests without data that were sent to all, or to one that was silent.
    pub tags_sent: u64,
    /// Replies that were acknowledged, each once for every time that it came.
    pub replies_acknowledged: u64,
    /// Replies that found no response context, and were not read (policy `list`).
    pub responses_refused: u64,
    /// Receivers that were excluded by a change of subgroups or of the list.
    pub excluded: u64,
    /// Parts of return streams that were sent.
    pub parts_sent: u64,
    /// Parts of return streams that brought something.
    pub parts_received: u64,
    /// Parts that had come before, or came after a gap.
    pub parts_unused: u64,
    /// Parts that were beyond the credit, or could not be of their stream.
    pub parts_refused: u64,
    /// At a sender, receivers that missed what was released; at a receiver, transfers of which it
    /// did.
    pub outrun: u64,
    /// Receivers that were demoted.
    pub demoted: u64,
    /// Times that a receiver was told to leave the group until its pass.
    pub stood_by: u64,
    /// Datagrams that did not decode, or came from a member with no part in the transfer.
    pub junk: u64,
}

/// A snapshot of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BulkStatus {
    /// Counters since the start.
    pub counters: Counters,
    /// Bytes that senders keep for repairs, and receivers until they are handed over.
    pub buffered: u64,
    /// The most bytes that senders kept at once.
    pub buffered_max: u64,
    /// The most of those that were sent and not acknowledged by all.
    pub unacknowledged_max: u64,
    /// The most bytes that were kept for replies that were being acknowledged (policy `list`).
    pub responses_max: u64,
}

impl BulkStatus {
    /// The same by name.
    pub fn list(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.counters.list(each);
        each("buffered", self.buffered);
        each("buffered_max", self.buffered_max);
        each("unacknowledged_max", self.unacknowledged_max);
        each("responses_max", self.responses_max);
    }
}

impl Counters {
    /// Lists all counts by name.
    fn list(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("packets sent", self.packets_sent);
        each("packets repeated", self.packets_repeated);
        each("parity sent", self.parity_sent);
        each("packets restored", self.packets_restored);
        each("packets received", self.packets_received);
        each("duplicates", self.duplicates);
        each("refused", self.refused);
        each("reports sent", self.reports_sent);
        each("reports received", self.reports_received);
        each("naks sent", self.naks_sent);
        each("naks received", self.naks_received);
        each("naks suppressed", self.naks_suppressed);
        each("polls sent", self.polls_sent);
        each("requests sent", self.requests_sent);
        each("requests unanswered", self.requests_unanswered);
        each("answers damped", self.answers_damped);
        each("answers late", self.answers_late);
        each("rounds", self.rounds);
        each("rounds partial", self.rounds_partial);
        each("tags sent", self.tags_sent);
        each("replies acknowledged", self.replies_acknowledged);
        each("responses refused", self.responses_refused);
        each("excluded", self.excluded);
        each("parts sent", self.parts_sent);
        each("parts received", self.parts_received);
        each("parts unused", self.parts_unused);
        each("parts refused", self.parts_refused);
        each("outrun", self.outrun);
        each("demoted", self.demoted);
        each("stood by", self.stood_by);
        each("junk", self.junk);
    }
}
