//! Which points each figure has: from a tenth of the wire to more than it takes (002 IV-A: "from
//! 100 Mbps up to the maximum throughput of the system").

use groupcast_core::Service;

use super::point::{Implementation, Load, Open, Point, Protocol, Wire};

/// 002's message size: one Ethernet frame with its headers.
const SMALL: usize = 1_350;
/// Its larger one: 9,000 bytes with its headers.
const LARGE: usize = 8_850;

/// The loads of a curve: rates in Mb/s, or packets a visit for [`Implementation::Library`].
struct Loads {
    full: &'static [u32],
    quick: &'static [u32],
}

impl Loads {
    fn choose(&self, quick: bool) -> &'static [u32] {
        if quick { self.quick } else { self.full }
    }
}

/// More than 1 Gb/s takes, too.
const GBIT1: Loads = Loads {
    full: &[
        100, 200, 300, 400, 500, 550, 600, 650, 700, 750, 800, 850, 900, 950, 1_200,
    ],
    quick: &[100, 400, 600, 800, 900, 1_200],
};
/// More than the hosts take, too.
const GBIT10: Loads = Loads {
    full: &[
        200, 500, 1_000, 1_500, 1_800, 2_000, 2_200, 2_400, 2_600, 2_800, 3_000, 3_200, 3_500,
        12_000,
    ],
    quick: &[500, 1_500, 2_000, 2_600, 3_000, 12_000],
};
/// Spread's hosts take less.
const GBIT10_SPREAD: Loads = Loads {
    full: &[
        200, 500, 800, 1_000, 1_200, 1_400, 1_600, 1_800, 2_000, 2_200, 12_000,
    ],
    quick: &[500, 1_000, 1_400, 1_800, 12_000],
};
/// The same with 8,850 B.
const GBIT10_LARGE: Loads = Loads {
    full: &[
        500, 1_000, 2_000, 3_000, 4_000, 4_500, 5_000, 5_500, 6_000, 12_000,
    ],
    quick: &[1_000, 3_000, 5_000, 12_000],
};
const VISITS: Loads = Loads {
    full: &[1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48],
    quick: &[1, 4, 12, 32],
};
const LOW: Loads = Loads {
    full: &[50, 100, 200, 300, 400, 500, 600, 800, 1_000],
    quick: &[100, 400, 500, 1_000],
};

/// Points of one implementation's two protocols.
fn both(
    wire: Wire,
    implementation: Implementation,
    service: Service,
    size: usize,
    loads: &'static [u32],
) -> impl Iterator<Item = Point> {
    Protocol::ALL.into_iter().flat_map(move |protocol| {
        loads.iter().map(move |load| Point {
            wire,
            implementation,
            protocol,
            service,
            size,
            load: match implementation {
                Implementation::Library => Load::Window(*load),
                _ => Load::Rate(f64::from(*load)),
            },
            open: Open::on(wire),
        })
    })
}

/// Fig. 1 and 2.
pub(super) fn gbit1(service: Service, quick: bool) -> Vec<Point> {
    let loads = GBIT1.choose(quick);
    let curve = |implementation, loads| both(Wire::Gbit1, implementation, service, SMALL, loads);
    let mut plan: Vec<Point> = curve(Implementation::Library, VISITS.choose(quick)).collect();
    if service == Service::Agreed {
        plan.extend(curve(Implementation::Paced, loads));
    }
    plan.extend(curve(Implementation::Daemon, loads));
    plan.extend(curve(Implementation::Spread, loads));
    plan
}

/// Fig. 3 and 5.
pub(super) fn gbit10(service: Service, quick: bool) -> Vec<Point> {
    let curve = |implementation, loads: Loads| {
        let loads = loads.choose(quick);
        both(Wire::Gbit10, implementation, service, SMALL, loads)
    };
    curve(Implementation::Library, VISITS)
        .chain(curve(Implementation::Daemon, GBIT10))
        .chain(curve(Implementation::Spread, GBIT10_SPREAD))
        .collect()
}

/// Fig. 5: Safe, and Agreed where it peaks.
pub(super) fn safe_beside_agreed(quick: bool) -> Vec<Point> {
    let agreed = gbit10(Service::Agreed, quick);
    let peaks = agreed.into_iter().filter(|point| match point.load {
        Load::Rate(mbps) => mbps > point.wire.mbps(),
        Load::Window(packets) => packets >= 24,
    });
    gbit10(Service::Safe, quick)
        .into_iter()
        .chain(peaks)
        .collect()
}

/// Fig. 4 and 6: the accelerated protocol with both sizes.
pub(super) fn sizes(service: Service, quick: bool) -> Vec<Point> {
    let large = |implementation, loads: Loads| {
        let loads = loads.choose(quick);
        both(Wire::Gbit10, implementation, service, LARGE, loads)
    };
    let mut plan = gbit10(service, quick);
    plan.extend(large(Implementation::Library, VISITS));
    plan.extend(large(Implementation::Daemon, GBIT10_LARGE));
    plan.extend(large(Implementation::Spread, GBIT10_LARGE));
    plan.retain(|point| point.protocol == Protocol::Accelerated);
    plan
}

/// Fig. 7. The library too is driven at a rate: even with one packet a visit it would send more
/// than that.
pub(super) fn low(quick: bool) -> Vec<Point> {
    [
        Implementation::Paced,
        Implementation::Daemon,
        Implementation::Spread,
    ]
    .into_iter()
    .flat_map(|implementation| {
        let loads = LOW.choose(quick);
        both(Wire::Gbit10, implementation, Service::Safe, SMALL, loads)
    })
    .collect()
}

/// What the personal window does to the most that is carried on 10 Gb/s.
pub(super) fn windows(implementation: Implementation, service: Service, quick: bool) -> Vec<Point> {
    let windows: &[u32] = if quick {
        &[20, 60]
    } else {
        &[6, 10, 20, 40, 60, 100]
    };
    let most = || both(Wire::Gbit10, implementation, service, SMALL, &[12_000]);
    let wide = |window: u32| {
        most().map(move |point| Point {
            open: Open {
                windows: (window, window * 3 / 4),
                ..point.open
            },
            ..point
        })
    };
    windows.iter().flat_map(|window| wide(*window)).collect()
}

/// What card and wake-up do to a daemon's latency at low loads.
pub(super) fn delays(quick: bool) -> Vec<Point> {
    let delays: &[(u64, u64)] = if quick {
        &[(10, 5), (20, 2)]
    } else {
        &[(10, 0), (10, 3), (10, 5), (5, 2), (15, 2), (20, 2), (25, 2)]
    };
    let loads: &[u32] = if quick {
        &[100, 500, 1_000]
    } else {
        &[100, 300, 400, 500, 600, 700, 800, 1_000]
    };
    let held = |(card, wake_up): (u64, u64)| {
        let points = both(
            Wire::Gbit10,
            Implementation::Daemon,
            Service::Safe,
            SMALL,
            loads,
        );
        points.map(move |point| Point {
            open: Open {
                card,
                wake_up,
                ..point.open
            },
            ..point
        })
    };
    delays.iter().flat_map(|delay| held(*delay)).collect()
}
