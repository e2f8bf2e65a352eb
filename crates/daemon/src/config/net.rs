//! The table `[net]`: the sockets between daemons.

use groupcast_net::{EndpointConfig, Spin};
use serde::{Deserialize, Serialize};

use super::duration::Span;
use super::{set, set_time};

/// The keys of `[net]`; those left out keep the driver's defaults.
#[derive(Clone, Default, PartialEq, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetOptions {
    /// Bytes of receive buffer to ask for.
    pub receive_buffer: Option<usize>,
    /// Bytes of send buffer to ask for.
    pub send_buffer: Option<usize>,
    /// Whether to use segmentation offload.
    pub offload: Option<bool>,
    /// The most datagrams in one send.
    pub segments_max: Option<usize>,
    /// About how many datagrams to take before clients get their turn.
    pub receive_max: Option<usize>,
    /// How long a batch waits for room in the send buffer.
    pub send_patience: Option<Span>,
    /// When to poll instead of sleeping.
    pub spin: Option<SpinOption>,
}

/// `"auto"`, `"off"` or a duration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct SpinOption(pub Spin);

impl TryFrom<String> for SpinOption {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "auto" => Ok(Self(Spin::Auto)),
            "off" => Ok(Self(Spin::Off)),
            text => match text.parse() {
                Ok(Span(duration)) => Ok(Self(Spin::For(duration))),
                Err(_) => Err(format!(
                    "`{text}` does not say when to poll: write \"auto\", \"off\" or a duration such as \"50 us\""
                )),
            },
        }
    }
}

impl From<SpinOption> for String {
    fn from(spin: SpinOption) -> Self {
        match spin.0 {
            Spin::Auto => "auto".into(),
            Spin::Off => "off".into(),
            Spin::For(duration) => Span(duration).into(),
        }
    }
}

impl NetOptions {
    /// Lays these options over `endpoint`.
    pub(super) fn apply(&self, endpoint: &mut EndpointConfig) {
        set(&mut endpoint.receive_buffer, self.receive_buffer);
        set(&mut endpoint.send_buffer, self.send_buffer);
        set(&mut endpoint.offload, self.offload);
        set(&mut endpoint.segments_max, self.segments_max);
        set(&mut endpoint.receive_max, self.receive_max);
        set_time(&mut endpoint.send_patience, self.send_patience);
        set(&mut endpoint.spin, self.spin.map(|spin| spin.0));
    }
}
