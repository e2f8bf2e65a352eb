//! A member without a daemon: `cargo run -p groupcast-member --example member -- NAME [KEY]`, in
//! several terminals.
//!
//! It sends a greeting whenever the membership changes, and prints what all members hear, in the
//! order in which all of them hear it. Without the file KEY (from `groupcast keygen`) everything is
//! sent in clear. Interrupted, it is missed after a time-out; `Member::leave` would spare the
//! others that.

use std::error::Error;
use std::net::Ipv4Addr;
use std::time::Duration;

use groupcast_member::{ConfigurationKind::Regular, Event, Key, Member, Sealing, Service};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let name = args.next().ok_or("usage: member NAME [KEY]")?;
    let sealing = match args.next() {
        Some(path) => Sealing::Key(Key::load(path.as_ref())?),
        None => Sealing::Insecure,
    };
    let mut member = Member::builder(&name, "239.192.79.9:4830".parse()?, sealing)
        .interface(Ipv4Addr::LOCALHOST)
        .join()?;
    loop {
        match member.next_event(Duration::from_secs(1))? {
            Some(Event::Deliver(message)) => println!("{}", message.payload.escape_ascii()),
            Some(Event::Configuration(group)) if group.kind == Regular => {
                println!("-- {} members", group.members.len());
                let greeting = format!("{name} greets {} members", group.members.len());
                member.submit(Service::Agreed, greeting)?;
            }
            Some(Event::NameInUse { .. }) => return Err("another member has this name".into()),
            _ => {}
        }
    }
}
