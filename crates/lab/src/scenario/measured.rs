//! The lines of results that a run's measures come to: one function a file.

use groupcast_sim::flow::FlowConfig;
use groupcast_sim::measure::{Distribution, HostMeasures, LinkUse, Measures, Traffic, role_name};

use super::flow::CONTROLS;
use super::record::{Record, Sheet};
use super::summary::seconds;

/// What the lines of one run have in common.
pub(super) struct Lines<'a> {
    pub(super) seed: u64,
    pub(super) measures: &'a Measures,
    /// Names of the hosts' vertices.
    pub(super) vertices: &'a [String],
    /// By number.
    pub(super) flows: &'a [FlowConfig],
}

impl Lines<'_> {
    /// All files but `runs.csv`.
    pub(super) fn sheets(&self) -> Vec<(&'static str, Sheet)> {
        vec![
            ("hosts.csv", self.hosts()),
            ("links.csv", self.links()),
            ("windows.csv", self.windows()),
            ("latency.csv", self.histograms()),
            ("packets.csv", self.packets()),
            ("counters.csv", self.counters()),
            ("flows.csv", self.flows()),
        ]
    }

    fn of_host(&self, host: usize) -> Record {
        Record::default().with("seed", self.seed).with("host", host)
    }

    fn hosts(&self) -> Sheet {
        let mut sheet = Sheet::default();
        for (host, measures) in self.measures.hosts.iter().enumerate() {
            sheet.push(&self.host(host, measures));
        }
        sheet
    }

    fn host(&self, host: usize, it: &HostMeasures) -> Record {
        let record = self
            .of_host(host)
            .with("vertex", self.vertices[host].as_str())
            .with("submitted", it.submitted)
            .with("refused", it.refused)
            .with("delivered", it.delivered)
            .with("delivered_bytes", it.delivered_bytes)
            .with("missing", it.missing)
            .with("redelivered", it.redelivered)
            .with("duplicates", it.duplicates)
            .with("unseen", it.unseen)
            .with("throughput", it.throughput)
            .with("goodput_bps", it.goodput_bps);
        let record = distributions(record, &it.latency, &it.arrival, &it.gap);
        traffic(record, &it.traffic)
            .with("interference", it.interference)
            .with("configurations", it.configurations)
            .with("cpu_busy", self.share(it.usage.cpu_busy.as_secs_f64()))
            .with("data_buffer_max_bytes", it.usage.data_buffer_max_bytes)
            .with("token_buffer_max_bytes", it.usage.token_buffer_max_bytes)
            .with("overflowed", it.usage.overflowed)
    }

    /// This many seconds of what was measured.
    fn share(&self, time: f64) -> Option<f64> {
        let measured = self.measures.measured.as_secs_f64();
        (measured > 0.0).then(|| time / measured)
    }

    fn links(&self) -> Sheet {
        let mut sheet = Sheet::default();
        for link in &self.measures.links {
            sheet.push(&self.link(link));
        }
        sheet
    }

    fn link(&self, it: &LinkUse) -> Record {
        Record::default()
            .with("seed", self.seed)
            .with("link", it.name.as_str())
            .with("packets", it.packets)
            .with("bytes", it.bytes)
            .with("utilisation", it.utilisation(self.measures.measured))
            .with("dropped", it.dropped)
            .with("lost", it.lost)
            .with("duplicated", it.duplicated)
            .with("corrupted", it.corrupted)
            .with("queue_max_bytes", it.queue_max_bytes)
            .with("queue_max_packets", u64::from(it.queue_max_packets))
    }

    fn flows(&self) -> Sheet {
        let columns = [
            "seed",
            "flow",
            "control",
            "from",
            "to",
            "delivered_bytes",
            "goodput_bps",
            "segments",
            "repeated",
            "timeouts",
        ];
        let mut sheet = Sheet::with_columns(&columns);
        let measured = self.measures.measured.as_secs_f64();
        for (number, (flow, it)) in self.flows.iter().zip(&self.measures.flows).enumerate() {
            let named = CONTROLS.iter().find(|(_, it)| *it == flow.congestion);
            let record = Record::default()
                .with("seed", self.seed)
                .with("flow", number)
                .with("control", named.map(|(word, _)| *word))
                .with("from", flow.hosts[0])
                .with("to", flow.hosts[1])
                .with("delivered_bytes", it.delivered_bytes)
                .with("goodput_bps", it.delivered_bytes as f64 * 8.0 / measured)
                .with("segments", it.segments)
                .with("repeated", it.repeated)
                .with("timeouts", it.timeouts);
            sheet.push(&record);
        }
        sheet
    }

    fn windows(&self) -> Sheet {
        let mut sheet = Sheet::default();
        let (from, length) = (self.measures.warm_up, self.measures.window);
        for (host, measures) in self.measures.hosts.iter().enumerate() {
            for (index, window) in measures.windows.iter().enumerate() {
                let start = from.as_nanos() + length.as_nanos() * index as u128;
                let record = self
                    .of_host(host)
                    .with("start_s", seconds(start as u64))
                    .with("delivered", u64::from(window.delivered))
                    .with("delivered_bytes", window.delivered_bytes)
                    .with("requests_sent", u64::from(window.requests_sent))
                    .with("requests_received", u64::from(window.requests_received))
                    .with("repairs_sent", u64::from(window.repairs_sent))
                    .with("repairs_received", u64::from(window.repairs_received));
                sheet.push(&record);
            }
        }
        sheet
    }

    fn histograms(&self) -> Sheet {
        let mut sheet =
            Sheet::with_columns(&["seed", "host", "measure", "low_s", "high_s", "count"]);
        for (host, it) in self.measures.hosts.iter().enumerate() {
            let measures = [
                ("latency", &it.latency),
                ("arrival", &it.arrival),
                ("gap", &it.gap),
                ("arrival_gap", &it.arrival_gap),
            ];
            for (name, distribution) in measures {
                for (low, high, count) in distribution.histogram().iter() {
                    let record = self
                        .of_host(host)
                        .with("measure", name)
                        .with("low_s", seconds(low))
                        .with("high_s", seconds(high))
                        .with("count", count);
                    sheet.push(&record);
                }
            }
        }
        sheet
    }

    fn packets(&self) -> Sheet {
        let columns = [
            "seed",
            "host",
            "kind",
            "role",
            "sent",
            "sent_bytes",
            "received",
            "received_bytes",
        ];
        let mut sheet = Sheet::with_columns(&columns);
        for (host, measures) in self.measures.hosts.iter().enumerate() {
            for count in &measures.kinds {
                let record = self
                    .of_host(host)
                    .with("kind", count.kind)
                    .with("role", role_name(count.role))
                    .with("sent", count.packets.sent)
                    .with("sent_bytes", count.packets.sent_bytes)
                    .with("received", count.packets.received)
                    .with("received_bytes", count.packets.received_bytes);
                sheet.push(&record);
            }
        }
        sheet
    }

    fn counters(&self) -> Sheet {
        let mut sheet = Sheet::with_columns(&["seed", "host", "counter", "value"]);
        for (host, measures) in self.measures.hosts.iter().enumerate() {
            for (counter, value) in &measures.usage.counters {
                let record = self
                    .of_host(host)
                    .with("counter", *counter)
                    .with("value", *value);
                sheet.push(&record);
            }
        }
        sheet
    }

    /// The measures of a line of `runs.csv`, added to what is in `record`.
    pub(super) fn overall(&self, record: Record) -> Record {
        let it = &self.measures.overall;
        let record = record
            .with("receivers", it.receivers)
            .with("submitted", it.submitted)
            .with("refused", it.refused)
            .with("delivered", it.delivered)
            .with("missing", it.missing)
            .with("duplicates", it.duplicates)
            .with("throughput_mean", it.throughput_mean)
            .with("throughput_slowest", it.throughput_slowest)
            .with("goodput_mean_bps", it.goodput_mean_bps)
            .with("goodput_slowest_bps", it.goodput_slowest_bps);
        let record = distributions(record, &it.latency, &it.arrival, &it.gap);
        traffic(record, &it.traffic).with("interference", it.interference)
    }
}

fn distributions(
    record: Record,
    latency: &Distribution,
    arrival: &Distribution,
    gap: &Distribution,
) -> Record {
    record
        .with("latency_mean_s", latency.mean())
        .with("latency_p50_s", latency.quantile(0.5))
        .with("latency_p90_s", latency.quantile(0.9))
        .with("latency_p99_s", latency.quantile(0.99))
        .with("latency_max_s", latency.max())
        .with("arrival_mean_s", arrival.mean())
        .with("arrival_p50_s", arrival.quantile(0.5))
        .with("arrival_p90_s", arrival.quantile(0.9))
        .with("arrival_p99_s", arrival.quantile(0.99))
        .with("arrival_max_s", arrival.max())
        .with("gap_mean_s", gap.mean())
        .with("gap_p99_s", gap.quantile(0.99))
        .with("gap_max_s", gap.max())
}

fn traffic(record: Record, it: &Traffic) -> Record {
    let Traffic {
        control,
        requests,
        repairs,
        ..
    } = it;
    record
        .with("requests_sent", requests.sent)
        .with("requests_received", requests.received)
        .with("repairs_sent", repairs.sent)
        .with("repairs_received", repairs.received)
        .with("control_sent", control.sent)
        .with("control_received", control.received)
}
