//! The keys whose values differ between two configurations, and which of them a running daemon can
//! take over.

use groupcast_core::settings::Settings;
use groupcast_net::Group;
use groupcast_session::EngineConfig;

use super::Config;
use super::keys::{engine_key, in_daemon};

/// What became of the keys whose values have changed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Changes {
    /// The keys whose new values hold from now on.
    pub live: Vec<String>,
    /// The keys whose new values hold when the daemon starts again.
    pub later: Vec<String>,
}

/// Whether a running daemon can take over another value of `key`: limits and rights of clients, and
/// how much is logged. All else is agreed with other daemons, held by the kernel, or was told to
/// somebody.
fn is_live(key: &str) -> bool {
    key == "log" || key == "access" || key == "when_slow" || key.starts_with("clients.")
}

impl Config {
    /// Takes over from `other` what a running daemon can take over; returns which keys have
    /// changed.
    pub fn take_over(&mut self, other: &Self) -> Changes {
        let differences = self.differences(other);
        let (live, later) = differences.into_iter().partition(|key| is_live(key));
        self.log.clone_from(&other.log);
        self.access.clone_from(&other.access);
        self.when_slow.clone_from(&other.when_slow);
        // Settings of the engine that are no limits of clients stay.
        let here = &self.engine;
        self.engine = EngineConfig {
            order: here.order.clone(),
            rings: here.rings.clone(),
            ring_pool: here.ring_pool,
            bimodal_groups: here.bimodal_groups.clone(),
            bimodal_message_max: here.bimodal_message_max,
            bimodal_members_max: here.bimodal_members_max,
            ..other.engine.clone()
        };
        Changes { live, later }
    }

    /// The keys whose values differ from those in `other`.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut keys = self.differences_at_the_top(other);
        keys.extend(differences(&self.engine, &other.engine, engine_key));
        if self.engine.bimodal_groups != other.engine.bimodal_groups {
            keys.push("bimodal.groups".into());
        }
        let tables = [
            differences(&self.endpoint, &other.endpoint, |key| format!("net.{key}")),
            self.order.differences(&other.order),
            differences(&self.bimodal, &other.bimodal, |key| {
                format!("bimodal.{key}")
            }),
            differences(&self.process, &other.process, |key| {
                format!("process.{key}")
            }),
        ];
        keys.extend(tables.into_iter().flatten());
        keys
    }

    fn rings_differ(&self, other: &Self) -> bool {
        let mut pairs = self.rings.iter().zip(&other.rings);
        self.rings.len() != other.rings.len() || pairs.any(|(ours, theirs)| !ours.is_like(theirs))
    }

    fn differences_at_the_top(&self, other: &Self) -> Vec<String> {
        let (ours, theirs) = (&self.endpoint, &other.endpoint);
        let certificate = |it: &Self| it.tls.as_ref().map(|tls| tls.certificate.clone());
        let key = |it: &Self| it.tls.as_ref().map(|tls| tls.key.clone());
        let ca = |it: &Self| it.tls.as_ref().map(|tls| tls.client_ca.clone());
        let is_mesh = |group: &Group| matches!(group, Group::Mesh(_));
        let reach = match is_mesh(&ours.group) || is_mesh(&theirs.group) {
            true => "peer",
            false => "multicast",
        };
        [
            ("name", self.name != other.name),
            ("listen", ours.listen != theirs.listen),
            (reach, ours.group != theirs.group),
            ("ttl", ours.multicast_ttl != theirs.multicast_ttl),
            (
                "multicast_loop",
                reach == "multicast" && ours.multicast_loop != theirs.multicast_loop,
            ),
            ("socket", self.socket != other.socket),
            ("client_listen", self.client_listen != other.client_listen),
            ("bus", self.bus != other.bus),
            ("bus_trace", self.bus_trace != other.bus_trace),
            ("metrics", self.metrics != other.metrics),
            ("client_token", self.client_token != other.client_token),
            ("tls_certificate", certificate(self) != certificate(other)),
            ("tls_key", key(self) != key(other)),
            ("tls_client_ca", ca(self) != ca(other)),
            ("access", self.access != other.access),
            ("when_slow", self.when_slow != other.when_slow),
            ("spill_dir", self.spill_dir != other.spill_dir),
            ("key", self.security != other.security),
            ("protocol", self.order.family != other.order.family),
            ("rings", self.rings_differ(other)),
            (
                "ring_pool",
                self.engine.ring_pool != other.engine.ring_pool
                    || !self.made_rings.differences(&other.made_rings).is_empty(),
            ),
            ("history", self.history != other.history),
            ("log", self.log != other.log),
            ("log_file", self.log_file != other.log_file),
        ]
        .into_iter()
        .filter(|(_, differs)| *differs)
        .map(|(key, _)| key.to_owned())
        .collect()
    }
}

fn differences<C: Settings>(one: &C, other: &C, key_of: impl Fn(&str) -> String) -> Vec<String> {
    in_daemon::<C>()
        .filter(|setting| (setting.get)(one) != (setting.get)(other))
        .map(|setting| key_of(setting.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{File, Options};
    use super::*;

    fn config(text: &str) -> Config {
        let text = format!("name = \"a\"\nlisten = \"10.0.0.1\"\ninsecure = true\n{text}");
        let file = File::parse(Path::new("t.toml"), &text).unwrap();
        Config::build(Some(&file), Options::default()).unwrap()
    }

    #[test]
    fn keys_are_named_by_what_they_are_called_in_the_file() {
        let usual = config("");
        assert!(usual.differences(&config("")).is_empty());
        let other = config(
            "peer = [\"10.0.0.2:4810\"]\nclients.max = 7\nring.idle_hold = \"30 ms\"\n\
             bimodal.groups = [\"t\"]\nbimodal.message_max = 9\nnet.offload = false\n",
        );
        let expected = [
            "peer",
            "clients.max",
            "bimodal.message_max",
            "bimodal.groups",
            "net.offload",
            "ring.idle_hold",
        ];
        assert_eq!(usual.differences(&other), expected);
    }

    #[test]
    fn another_protocol_is_one_difference_and_takes_a_restart() {
        let mut running = config("");
        let other = config("protocol = \"rmp\"\nrmp.window_max = 7\n");
        assert_eq!(running.differences(&other), ["protocol"]);
        assert_eq!(running.take_over(&other).later, ["protocol"]);
        let rmp = config("protocol = \"rmp\"\n");
        assert_eq!(rmp.differences(&other), ["rmp.window_max"]);
    }

    #[test]
    fn limits_of_clients_and_the_log_are_taken_over_and_nothing_else() {
        let mut running = config("");
        let other = config(
            "log = \"debug\"\nclients.max = 7\nring.idle_hold = \"30 ms\"\n\
             bimodal.groups = [\"t\"]\nbimodal.message_max = 9\n",
        );
        let changes = running.take_over(&other);
        assert_eq!(changes.live, ["log", "clients.max"]);
        let later = ["bimodal.message_max", "bimodal.groups", "ring.idle_hold"];
        assert_eq!(changes.later, later);
        assert_eq!(running.engine.clients_max, 7);
        assert_eq!(running.log.as_deref(), Some("debug"));
        assert_eq!(running.differences(&other), later);
        assert_eq!(running.take_over(&other).live, [""; 0]);
    }
}
