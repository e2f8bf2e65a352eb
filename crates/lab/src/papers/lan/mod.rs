//! 001: ACK, NAK with polling, ring and tree over switched Ethernet (Table 1–3, Fig. 8–21).
//!
//! A figure is a list of points, each measured on the simulator or on namespaces, and a judge. The
//! time of a message is from its offer until the sender knows that every receiver has it, buffer
//! reservation included (001 section 4).
//!
//! - `point`: systems, their parameters, and what 001 does not print.
//! - `sim`, `net`: one point on the simulator, and on namespaces of this machine.
//! - `compare`: raw UDP and TCP, which 001 compares its protocols with.
//! - `points`: what can be said of many points.
//! - `judge`: what each figure concluded, as arithmetic.
//! - `plan`: which points a figure has. `draw`: what to draw of them.
//!
//! What does not come out, and why:
//! - Fig. 8, 11, 14: the growth from 1 to 30 receivers is 001's in milliseconds, but 001's times
//!   hold 13 to 20 ms more for every message, which neither wire nor receivers explain and which is
//!   not modelled: in percent it is larger here.
//! - Fig. 9: the sender's kernel sends while its process copies, so most of the copy costs no time.
//! - Fig. 10, 12, 18, 19: right where the processor is the bottleneck (small packets) and where the
//!   wire is; between them a window of 3 or another poll is a few percent better. Half the costs,
//!   or twice, move that region (see the notes).
//! - Fig. 20, small messages: receivers register with the sender itself, where 001's first exchange
//!   goes through the tree too, so that a chain's delay counts once and not twice.
//! - Table 3: NAK and ring both fill the wire and are equal; ACK with 50 KB packets falls behind
//!   the trees only where its acknowledgements cannot be handled while the kernel sends: with a
//!   send buffer of 16 KiB, as the notes show.

pub(super) mod compare;
mod draw;
mod judge;
mod net;
mod plan;
mod point;
mod points;
mod sim;

use std::ops::Range;

use self::point::{LanPoint, Open};
use self::points::{POINTS, Points, SEARCH, SWEEP};
use super::{Context, Data, LabHost, Plot, Reproduction, RunError, Verdict};

/// One of 001's figures or tables.
pub struct Figure {
    title: &'static str,
    hosts: &'static [LabHost],
    /// What is measured.
    plan: fn(quick: bool) -> Vec<LanPoint>,
    /// What is measured beside it with the first seed, and how it is judged.
    search: Option<Search>,
    judge: fn(&Points, &mut Verdict),
    draw: fn(&Points) -> Vec<Plot>,
}

/// A search for parameters that are better than those of the paper.
struct Search {
    plan: fn(quick: bool) -> Vec<LanPoint>,
    judge: fn(&Points, &mut Verdict),
}

/// A figure without a search, on the simulator and on namespaces.
const fn figure(
    title: &'static str,
    plan: fn(bool) -> Vec<LanPoint>,
    judge: fn(&Points, &mut Verdict),
    draw: fn(&Points) -> Vec<Plot>,
) -> Figure {
    Figure {
        title,
        hosts: &[LabHost::Sim, LabHost::Net],
        plan,
        search: None,
        judge,
        draw,
    }
}

/// Memory.
pub const TABLE1: Figure = figure(
    "Memory that the sender needs",
    plan::table3,
    judge::table1,
    draw::buffers,
);

/// Control packets.
pub const TABLE2: Figure = figure(
    "Acknowledgements in the network and at the sender",
    plan::table2,
    judge::table2,
    draw::acknowledgements,
);

/// TCP beside ACK.
pub const FIG8: Figure = figure(
    "A file to 1–30 receivers by TCP and by ACK",
    plan::fig8,
    judge::fig8,
    |points| draw::by_receivers(points, |key| key.system.clone()),
);

/// ACK beside raw UDP; nobody can leave the copy out of real sockets.
pub const FIG9: Figure = Figure {
    hosts: &[LabHost::Sim],
    ..figure(
        "ACK, ACK without the copy, and raw UDP",
        plan::fig9,
        judge::fig9,
        draw::overhead,
    )
};

/// ACK: packets and windows.
pub const FIG10: Figure = figure(
    "ACK: packet and window",
    plan::fig10,
    judge::fig10,
    draw::windows,
);

/// ACK: receivers.
pub const FIG11: Figure = figure(
    "ACK: 1–30 receivers",
    plan::fig11,
    judge::fig11,
    draw::small_and_large,
);

/// NAK: poll interval.
pub const FIG12: Figure = figure("NAK: poll interval", plan::fig12, judge::fig12, draw::polls);

/// NAK: buffer.
pub const FIG13: Figure = figure(
    "NAK: buffer and packet",
    plan::fig13,
    judge::fig13,
    draw::buffer_sizes,
);

/// NAK: receivers.
pub const FIG14: Figure = figure(
    "NAK: 1–30 receivers",
    plan::fig14,
    judge::fig14,
    |points| draw::by_receivers(points, draw::packet),
);

/// Ring: packets.
pub const FIG15: Figure = figure("Ring: packet", plan::fig15, judge::fig15, draw::packets);

/// Ring: windows.
pub const FIG16: Figure = figure("Ring: window", plan::fig16, judge::fig16, draw::windows);

/// Ring: receivers.
pub const FIG17: Figure = figure(
    "Ring: 1–30 receivers",
    plan::fig17,
    judge::fig17,
    |points| draw::by_receivers(points, draw::packet),
);

/// Tree: heights.
pub const FIG18: Figure = figure("Tree: height", plan::fig18, judge::fig18, draw::heights);

/// Tree: heights and windows.
pub const FIG19: Figure = figure(
    "Tree: height and window",
    plan::fig19,
    judge::fig19,
    draw::heights_by_window,
);

/// Tree: small messages.
pub const FIG20: Figure = figure(
    "Tree: small messages",
    plan::fig20,
    judge::fig20,
    draw::small_trees,
);

/// Tree: windows and packets.
pub const FIG21: Figure = figure(
    "Tree of height 6: window and packet",
    plan::fig21,
    judge::fig21,
    draw::windows,
);

/// Which is the fastest.
pub const TABLE3: Figure = Figure {
    search: Some(Search {
        plan: plan::search,
        judge: judge::search,
    }),
    ..figure(
        "2 MB with the best parameters of each",
        plan::table3,
        judge::table3,
        draw::throughputs,
    )
};

/// One-packet messages.
pub const SMALL: Figure = figure(
    "Messages of one packet",
    plan::small,
    judge::small,
    draw::small,
);

impl Reproduction for Figure {
    fn title(&self) -> &'static str {
        self.title
    }

    fn hosts(&self) -> &'static [LabHost] {
        self.hosts
    }

    fn seeds(&self) -> Range<u64> {
        1..4
    }

    fn run(&self, context: &Context<'_>) -> Result<Data, RunError> {
        let plan = (self.plan)(context.options().quick);
        let mut data = Data::new();
        match context.options().host {
            LabHost::Net => {
                let table = net::run(context, &plan, &mut data)?;
                data.push(table);
            }
            LabHost::Sim | LabHost::Calc => self.simulate(context, &plan, &mut data)?,
        }
        Ok(data)
    }

    fn judge(&self, data: &Data) -> Verdict {
        let mut verdict = Verdict::new();
        (self.judge)(&Points::read(data, POINTS), &mut verdict);
        if let Some(search) = &self.search
            // Namespaces measure what 001 measured; a search there would take hours.
            && !net::is_of(data)
        {
            (search.judge)(&Points::read(data, SEARCH), &mut verdict);
        }
        self.remark(&Points::read(data, SWEEP), &mut verdict);
        if let Some(remark) = net::remark(data) {
            verdict.note(remark);
        }
        verdict
    }

    fn plots(&self, data: &Data) -> Vec<Plot> {
        (self.draw)(&Points::read(data, POINTS))
    }
}

impl Figure {
    /// Measures `plan`, a search and the sweep on the simulator.
    fn simulate(
        &self,
        context: &Context<'_>,
        plan: &[LanPoint],
        data: &mut Data,
    ) -> Result<(), RunError> {
        conditions(data);
        data.push(sim::run(context, POINTS, plan, context.seeds())?);
        let first = context.seeds().start;
        let seeds = first..first + 1;
        if let Some(search) = &self.search {
            let plan = (search.plan)(context.options().quick);
            data.push(sim::run(context, SEARCH, &plan, seeds.clone())?);
        }
        let open = context.choose(plan::open((self.plan)(true)), Vec::new());
        data.push(sim::run(context, SWEEP, &open, seeds)?);
        Ok(())
    }

    /// Says what the verdict would be with other values of what 001 leaves open; it decides
    /// nothing.
    fn remark(&self, points: &Points, verdict: &mut Verdict) {
        for open in plan::OPEN {
            let of = points.of(|key| open.is_of(key));
            if of.iter().next().is_none() {
                continue;
            }
            let mut other = Verdict::new();
            (self.judge)(&of, &mut other);
            let broken = other.checks.iter().filter(|check| !check.held);
            let broken: Vec<String> = broken
                .map(|check| format!("{} → {}", check.claim, check.measured))
                .collect();
            verdict.note(match broken.is_empty() {
                true => format!("with {}: everything holds", open.name()),
                false => format!("with {}: does not hold: {}", open.name(), broken.join("; ")),
            });
        }
    }
}

/// Says what 001 leaves open.
fn conditions(data: &mut Data) {
    let Open {
        copy,
        send_buffer,
        costs,
        duplex,
    } = Open::DEFAULT;
    data.condition(
        "machines",
        "16 with the sender on the first switch, 15 on the second",
    );
    data.condition(
        "costs",
        format!(
            "preset pentium-650 at {costs} %, fitted to the 4 ms that 29 more receivers take in Fig. 8; TCP's segments \
             cost no system calls"
        ),
    );
    data.condition(
        "reservation",
        "the announcement has the message's length, and who registers has room: one exchange before the data",
    );
    data.condition(
        "copy into the protocol's buffer",
        format!("{copy} ns a byte unless said"),
    );
    data.condition(
        "socket buffers",
        format!("{send_buffer} KiB to send, 64 KiB to receive"),
    );
    data.condition("links", format!("{} duplex", duplex.name()));
    data.condition("switch memory", "512 KiB");
    data.condition(
        "repetitions",
        "3 messages a seed, one after the other, after one of 1 B that is not counted",
    );
}
