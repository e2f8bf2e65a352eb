//! The keys at the top of a configuration file, which are also the options of the command line.

/// What there is to know of a key at the top.
#[derive(Clone, Copy, Debug)]
pub struct TopKey {
    /// The key; the option of the command line is called the same with `-` for `_`.
    pub name: &'static str,
    /// What it decides.
    pub meaning: &'static str,
    /// What kind of value.
    pub value: &'static str,
    /// The default: as TOML in backquotes, or in words where it is found out at the start.
    pub default: &'static str,
    /// What goes wrong.
    pub wrong: &'static str,
}

impl TopKey {
    /// The key of that name.
    ///
    /// # Panics
    /// If there is none.
    pub fn named(name: &str) -> &'static Self {
        let key = TOP.iter().find(|key| key.name == name);
        key.expect("the command line names keys that there are")
    }

    /// What it decides and its default, for the command line's help.
    pub fn help(&self) -> String {
        let default = self.default.replace('`', "");
        format!(
            "{} [default: {default}]",
            self.meaning.trim_end_matches('.')
        )
    }
}

/// Every key at the top, in the order of the document.
pub(super) const TOP: &[TopKey] = &[
    TopKey {
        name: "name",
        meaning: "The daemon's name, unique in the cluster. Clients are called `client@name`.",
        value: "1 to 64 bytes of letters, digits, `-`, `_`, `.`",
        default: "the host's name",
        wrong: "The name of another daemon that is alive: one that has just begun stops with an error that names the \
                other. Two that have both run for ten seconds, or are in groups with others, go on; their groups stay \
                apart, and the log of each names the other once a minute.",
    },
    TopKey {
        name: "listen",
        meaning: "The interface by which the other daemons are reached, and the port of this daemon's datagrams.",
        value: "`\"IPv4\"` or `\"IPv4:PORT\"`",
        default: "the address from which multicasts leave this host, else 127.0.0.1; port 4810",
        wrong: "The address of another network: the daemon stays alone.",
    },
    TopKey {
        name: "multicast",
        meaning: "The group's multicast address and port; the same at every daemon of the cluster that has multicast. \
                  Daemons without have `peer` instead, and get copies.",
        value: "`\"IPv4:PORT\"` in 224.0.0.0/4, not in 224.0.0.0/24; not together with `peer`",
        default: "`\"239.192.79.1:4809\"`",
        wrong: "Different from the others': the daemon stays alone.",
    },
    TopKey {
        name: "ttl",
        meaning: "How many networks a multicast may cross; 1 is this network only.",
        value: "1 to 255; only with multicast",
        default: "`1`",
        wrong: "Too small: daemons behind a router are not reached. Too large: the datagrams reach networks that have \
                no use for them.",
    },
    TopKey {
        name: "multicast_loop",
        meaning: "Whether other daemons on this host hear this one's multicasts.",
        value: "true or false; only with multicast",
        default: "`true`",
        wrong: "False with several daemons on one host: they do not find each other. True costs a copy of every \
                datagram, which the daemon drops.",
    },
    TopKey {
        name: "peer",
        meaning: "The other daemons, where this host has no multicast (clouds, containers): each gets a unicast copy of \
                  everything, and sends this one copies. The others may have `multicast`: docs/network.md. Of every two \
                  daemons that multicast does not join at least one must list the other; one list of all can serve all.",
        value: "list of `\"IPv4:PORT\"`; not together with `multicast`",
        default: "none: multicast is used",
        wrong: "Two daemons of which neither lists nor hears the other: they cannot be in one ring, and others that reach \
                both waver between them. Each peer costs a copy of every datagram.",
    },
    TopKey {
        name: "socket",
        meaning: "The Unix socket for clients of this host.",
        value: "path; relative to the file's directory",
        default: "`/run/groupcast.sock` for root, else `$XDG_RUNTIME_DIR/groupcast.sock`, else \
             `/tmp/groupcast-UID.sock`",
        wrong: "The socket of another daemon that is alive: this one refuses to start.",
    },
    TopKey {
        name: "client_listen",
        meaning: "A TCP address for clients of other hosts.",
        value: "`\"IP:PORT\"`; a loopback address, unless there is a `tls_certificate` and clients are asked for a \
                certificate or a token, or the daemon is `insecure`",
        default: "none",
        wrong: "Another address without those: the daemon refuses to start, since clients would speak in clear over \
                the network, or everybody on it could be a client.",
    },
    TopKey {
        name: "bus",
        meaning: "Where clients of the message bus connect, which speak lines of text (docs/bus.md); `--bus` once for each.",
        value: "list of `\"IP:PORT\"` and `\"unix:PATH\"`, 13 at most; paths relative to the file's directory; a \
                loopback address, unless there are a `tls_certificate` and a `tls_client_ca`, with which TLS is \
                spoken there, or the daemon is `insecure`",
        default: "none",
        wrong: "A loopback address on a host with several users: each of them can be a client, also where there is a \
                `client_token`. Give them a `unix:PATH`.",
    },
    TopKey {
        name: "bus_trace",
        meaning: "The directory for traces: records of what a connection of the bus sends and gets, which its client \
                  asks for with `tracefile` (docs/bus.md).",
        value: "path; relative to the file's directory; only with `bus`",
        default: "none: `tracefile` is refused",
        wrong: "A directory that is not there: the daemon refuses to start. Every client of the bus can fill it, with \
                32 traces of 16 MiB each. A full disk ends traces and nothing else.",
    },
    TopKey {
        name: "metrics",
        meaning: "Where Prometheus, and what reads its text format, gets the daemon's figures and counters by HTTP \
                  (docs/metrics.md). A port alone is one of 127.0.0.1.",
        value: "`\"IP:PORT\"` or `\"PORT\"`",
        default: "none: there is no such address",
        wrong: "An address of a network: everybody who reaches it can read the figures, the daemon's name, and the \
                names of bimodal groups and further rings among them. Nobody can change anything there.",
    },
    TopKey {
        name: "client_token",
        meaning: "The file with the token that clients over TCP must have; `groupcast keygen` makes one. Clients name \
                  a copy of it with `--token`.",
        value: "path; relative to the file's directory; only with `client_listen`; not the file of `key`",
        default: "none: every process that reaches `client_listen` can be a client, and the log says so",
        wrong: "None on a host with several users: TCP clients bypass the permissions of `socket`.",
    },
    TopKey {
        name: "tls_certificate",
        meaning: "The daemon's certificate in PEM, with the chain above it: clients over TCP speak TLS 1.3 then. They \
                  name the authority that signed it with `--tls-ca`. docs/tls.md shows how to make one.",
        value: "path; relative to the file's directory; with `tls_key` and `client_listen`",
        default: "none: clients over TCP speak in clear",
        wrong: "Not for the address or the name that clients connect to: they refuse it.",
    },
    TopKey {
        name: "tls_key",
        meaning: "The private key of `tls_certificate`, in PEM.",
        value: "path of a file with mode 0600, of root or the daemon's user; relative to the file's directory",
        default: "none",
        wrong: "Another certificate's, or readable by others: the daemon refuses to start.",
    },
    TopKey {
        name: "tls_client_ca",
        meaning: "Certificates of authorities in PEM: a client over TCP must show a certificate that one of them \
                  signed. Rules of `access` can name the DNS names in it.",
        value: "path; relative to the file's directory; with `tls_certificate`",
        default: "none: clients show no certificate",
        wrong: "An authority that signs for others too, such as the one of all web servers: all of them are clients.",
    },
    TopKey {
        name: "access",
        meaning: "Rules for clients, each a table `[[access]]`. A rule gives `rights` (`join`, `send`, `rekey`) in \
                  `groups` (names; `ops/*` means all names that begin so, `*.cb` all names below `cb`) to `users` (names or \
                  numbers, of processes at the Unix socket), to `certificates` (DNS names in the certificates that \
                  clients show) and, with `tcp = true`, to all clients over TCP, those of the bus included, which need no \
                  token. All clients may use a group that no rule names. Only root and the daemon's own user may change the key, unless a rule gives `rekey`; no \
                  client may change it over TCP. SIGHUP applies new rules at once: clients leave the groups that are \
                  now forbidden to them, and are told.",
        value: "list of tables; `groups` where a rule gives `join` or `send`",
        default: "none: a client that reaches the socket may do everything except change the key",
        wrong: "A rule at one daemon only: clients of the others are not bound by it.",
    },
    TopKey {
        name: "when_slow",
        meaning: "Rules for clients that read too slowly, each a table `[[when_slow]]` with `groups` (names, as \
                  in `access`) and a `policy`. `block`: when \
                  `clients.stop_publishers_at` bytes of such groups wait for the client, this daemon's clients \
                  that publish to them or send them requests wait. `spill`: no publisher waits; what comes \
                  beyond that many bytes waits on the disk, up to `clients.spill_each_max`. `drop`: no publisher \
                  waits; when that many bytes of all groups wait, the client misses unreliable messages. \
                  `disconnect`: no publisher waits; the client is disconnected at `clients.drop_unreliable_at`. \
                  If several rules name a group, or one of the groups of a message, the least patient one \
                  applies. A client may ask for less patience, not for more. SIGHUP applies a change at once, \
                  also to publishers that wait already.",
        value: "list of tables, each with `groups` and `policy`",
        default: "none: all groups block",
        wrong: "`block` for a feed whose publisher must keep its pace: one program that hangs stops it. `drop` and \
                `disconnect` for messages that no client may miss: a slow client is cut off at `clients.disconnect_at` \
                at the latest.",
    },
    TopKey {
        name: "spill_dir",
        meaning: "The directory on whose disk messages wait for slow clients, where a rule of `when_slow` or the client \
                  itself says `spill`: in a file without a name for each of them, which is gone with the daemon. \
                  `clients.spill_max` bounds them.",
        value: "path of a directory that is there; relative to the file's directory",
        default: "none: no message waits on a disk, and a client that asks for it is told so",
        wrong: "A disk that others need: it may be filled up to `clients.spill_max`. One that others can take away and \
                read: the messages are in clear on it. A full or broken one costs slow clients their connections, and \
                nobody else anything.",
    },
    TopKey {
        name: "key",
        meaning: "The file with the key that all daemons of the cluster share; `groupcast keygen` makes one.",
        value: "path; relative to the file's directory; not together with `insecure`",
        default: "none: the daemon refuses to start unless `insecure`",
        wrong: "Another key than the others': datagrams are counted and logged as of another cluster, and dropped.",
    },
    TopKey {
        name: "insecure",
        meaning: "Run without a key: no authentication, no encryption.",
        value: "true or false; not together with `key`",
        default: "`false`",
        wrong: "True where others can reach the network: they read and forge everything.",
    },
    TopKey {
        name: "protocol",
        meaning: "What orders the messages of all groups; the same at every daemon of the cluster. \
                  docs/choosing-an-order.md says which to choose when. The table of that name has its settings.",
        value: "`\"ring\"` or `\"rmp\"`",
        default: "`\"ring\"`",
        wrong: "Another than the others': two groups on one address that do not hear each other. Each daemon says so \
                in its log, once a minute, and in its status.",
    },
    TopKey {
        name: "rings",
        meaning: "Rings beside the daemon's own order, each a table `[[rings]]`: `top`, a name with dotted levels such \
                  as `wb.cb.uiuc`; `multicast`, an address and a port; and settings of RMP, by their names in [rmp]. \
                  The ring orders the groups at and below its top, except those of a ring with a lower top. The daemon \
                  is in a ring only while its clients use it (docs/names.md). All daemons whose clients use these \
                  names must have the same ring.",
        value: "tables",
        default: "none",
        wrong: "Different rings at different daemons: groups of one name are two groups. Two rings with one address: \
                the members of both get the datagrams of both.",
    },
    TopKey {
        name: "ring_pool",
        meaning: "Addresses for rings that joins ask for, a table `[ring_pool]`: `network`, such as `\"239.192.80.0/24\"`; \
                  `port`; and settings of RMP for these rings, by their names in [rmp]. A join that asks for a ring gets \
                  one at the address that its name's hash says, or the next that no ring has (docs/names.md). A daemon \
                  without a pool joins rings that others made, with RMP's defaults.",
        value: "table; a network of 224.0.0.0/4, without 224.0.0.0/24, with 16 to 32 bits; not together with `peer`",
        default: "none: such a join is refused",
        wrong: "Addresses that something else has: it gets the datagrams of the rings, and they its. Too few: a ring is \
                refused while all are given. Settings that differ between daemons: members of one ring go by different ones.",
    },
    TopKey {
        name: "history",
        meaning: "A file to which everything that the daemon's group did is written, for `groupcast check`.",
        value: "path; relative to the file's directory; a daemon that starts again goes on at its end",
        default: "none",
        wrong: "It grows by about 150 bytes a message and is never cut off. A file that holds something else, that \
                another key names, or that belongs to another user is refused: nothing is written into it. A daemon of \
                root follows no link at the end of the path. On a full disk the history ends for good where it is: the \
                log says so, and `groupcast status`.",
    },
    TopKey {
        name: "log",
        meaning: "How much is logged. The environment variable GROUPCAST_LOG wins over it. SIGHUP applies a change at \
                  once.",
        value: "`off`, `error`, `warn`, `info`, `debug` or `trace`, or a list such as `warn,groupcast_net=debug`",
        default: "info",
        wrong: "Too little: the log does not say why a daemon was cut off. Too much: `debug` and `trace` slow the \
                daemon down.",
    },
    TopKey {
        name: "log_file",
        meaning: "The file that log lines are appended to. SIGHUP opens it again, so that it can be moved away first.",
        value: "path; relative to the file's directory",
        default: "none: stderr",
        wrong: "A path that cannot be written: the daemon refuses to start; on SIGHUP it goes on with the file that it \
                has. A file that another key names is refused. A full disk costs log lines and nothing else.",
    },
];
