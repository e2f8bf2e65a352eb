//! What `help` says.

/// How each command is written, and what it does, in the order of `command::NAMES`.
const COMMANDS: [(&str, &str); 15] = [
    (
        "accept TAG DOMAIN [ring]",
        "take the messages to DOMAIN whose tag matches TAG, a regular expression or *; ring: by an order of its own",
    ),
    (
        "reject TAG DOMAIN",
        "take back the accept of the identical TAG",
    ),
    (
        "msg TAG DOMAIN[,DOMAIN...] MESSAGE",
        "send: TEXT, \"TEXT\", (LIST), or LENGTH and the bytes in the next line",
    ),
    ("id NAME", "be called NAME; \"\" for no more"),
    (
        "ping TAG DOMAIN",
        "who would get such a message; * for whatever tag",
    ),
    ("loop-back on|off", "whether own messages come back"),
    (
        "service WORD",
        "unreliable, reliable, fifo, causal, agreed, k-resilient:K, majority, safe or bimodal",
    ),
    (
        "syntax sexp|cstream|raw",
        "what own messages are written in",
    ),
    ("views on|off", "whether changes of the domains are shown"),
    ("from on|off", "whether deliveries name their sender"),
    (
        "tracefile NAME|off",
        "write what this connection sends and gets to a file of the daemon's operator",
    ),
    ("info", "what this connection is and has chosen"),
    ("clients", "all clients of the bus"),
    ("help [COMMAND]", "this"),
    ("quit", "leave"),
];

/// How each command is written: its name, and what stands for its arguments.
pub const USAGES: [&str; COMMANDS.len()] = {
    let mut usages = [""; COMMANDS.len()];
    let mut index = 0;
    while index < usages.len() {
        usages[index] = COMMANDS[index].0;
        index += 1;
    }
    usages
};

/// The reply, about all commands or one.
pub(super) fn reply(about: Option<&str>) -> Vec<u8> {
    let is_meant = |usage: &str| about.is_none_or(|name| usage.split(' ').next() == Some(name));
    let meant = COMMANDS.iter().filter(|(usage, _)| is_meant(usage));
    let lines: Vec<String> = meant
        .map(|(usage, meaning)| format!(" {usage}: {meaning}\n"))
        .collect();
    format!("ok {}\n{}", lines.len(), lines.concat()).into_bytes()
}
