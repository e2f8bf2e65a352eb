//! What stands between a sender's flow and its receivers: what all of them have, how far they have
//! room, what is to be sent again. The flow asks here, and nowhere else, so that it need not know
//! whether its receivers are known.

use groupcast_core::{MemberId, Time};

use super::super::numbers::PacketNumber;
use super::buckets::Buckets;
use super::peer::Peer;
use super::rounds::Rounds;
use super::windows::Windows;

/// By whose word the window of a pass moves.
#[derive(Debug)]
pub(super) enum Gate {
    /// The receivers of the pass, each by its own reports.
    Known,
    /// Whoever answers: nobody is known (003 3.3.3).
    Buckets(Buckets),
    /// The receivers of the pass, once all of them have replied (003 5.3.1).
    Rounds(Rounds),
    /// The receivers of the pass, each by its own reports and with a timer of its own (003 3.3.1).
    Windows(Windows),
}

impl Gate {
    /// All receivers have the packets below; `None` if there is nobody to say so.
    pub(super) fn released<'a>(
        &self,
        gating: impl Iterator<Item = &'a Peer>,
    ) -> Option<PacketNumber> {
        match self {
            Self::Known | Self::Windows(_) => gating.map(|peer| peer.next).min(),
            Self::Buckets(buckets) => Some(buckets.released()),
            Self::Rounds(rounds) => {
                let is_any = gating.count() > 0;
                is_any.then(|| rounds.released())
            }
        }
    }

    /// All receivers have room below this packet.
    pub(super) fn room<'a>(&self, gating: impl Iterator<Item = &'a Peer>) -> PacketNumber {
        match self {
            Self::Known | Self::Windows(_) => {
                let room = gating.map(|peer| peer.limit).min();
                room.unwrap_or(PacketNumber::MAX)
            }
            Self::Buckets(buckets) => buckets.room(),
            Self::Rounds(rounds) => rounds.room(),
        }
    }

    /// Whether what a receiver reports as missing is sent again at its own word.
    pub(super) fn repairs_for(&self, peer: &Peer) -> bool {
        match self {
            Self::Known => peer.gates,
            Self::Buckets(_) | Self::Rounds(_) | Self::Windows(_) => false,
        }
    }

    /// Whether a receiver of the pass has to say something; packets below `reach` were sent, and
    /// there is no room beyond `closed`, if that stops the sender.
    pub(super) fn awaits(
        &self,
        receiver: MemberId,
        peer: &Peer,
        reach: PacketNumber,
        closed: Option<PacketNumber>,
    ) -> bool {
        match self {
            Self::Known | Self::Buckets(_) => peer.owes_word(reach, closed),
            Self::Windows(windows) => {
                windows.has_asked_in_vain(receiver) && peer.owes_word(reach, closed)
            }
            // A receiver that has replied is not asked before the round is over.
            Self::Rounds(rounds) => rounds.awaits(receiver),
        }
    }

    /// Since when a receiver that has a timer of its own has owed a word. The silence of one that
    /// owed none before then says nothing.
    pub(super) fn owed_since(&self, receiver: MemberId) -> Option<Time> {
        match self {
            Self::Windows(windows) => windows.owed_since(receiver),
            Self::Known | Self::Buckets(_) | Self::Rounds(_) => None,
        }
    }
}
