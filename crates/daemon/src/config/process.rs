//! What the process asks of its host, so that it runs in time on one that is busy.

use groupcast_core::settings::Spec;
use groupcast_net::process::REAL_TIME_PRIORITY_MAX;

groupcast_core::settings! {
    /// What the process asks of its host. Nothing, unless it is told to.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ProcessConfig {
        /// The daemon runs before all that has no real-time priority (SCHED_FIFO, with this
        /// priority); 0: it does not. It needs the capability CAP_SYS_NICE, or a limit
        /// RLIMIT_RTPRIO of at least this (`LimitRTPRIO` of a service), and refuses to start
        /// without.
        pub real_time_priority: u32 = 0 => Spec::count("", 0, REAL_TIME_PRIORITY_MAX),
            "0 on a host whose processors are all busy: pauses of the scheduler are taken for crashes. Above 0 on a host \
             with one processor and much traffic, or with `net.spin`: other programs wait.";
        /// Whether the daemon's memory is never swapped out. It needs the capability CAP_IPC_LOCK,
        /// or a limit RLIMIT_MEMLOCK of all that it may take (`LimitMEMLOCK=infinity` of a
        /// service), and refuses to start without.
        pub lock_memory: bool = false => Spec::flag(),
            "False on a host that swaps: pauses. True: other programs cannot use the daemon's memory.";
    }
}
