//! A replicated service without daemons: all replicas are in a group, one of them has its handler
//! and answers, and when it dies the next goes on.
//!
//! In three terminals of one machine:
//!
//! ```text
//! cargo run -p groupcast-groups --example handler -- ada serve
//! cargo run -p groupcast-groups --example handler -- ben serve
//! cargo run -p groupcast-groups --example handler -- cleo ask hello
//! ```
//!
//! Kill the replica that answers, and ask again. `GROUP=IP:PORT` is another address, `ORDER=rmp`
//! another protocol, `INTERFACE=IP` the interface to hosts other than this; everything is sent in
//! clear.

use std::env;
use std::error::Error;
use std::time::Duration;

use groupcast_groups::{Ask, ClientEvent, Groups, Member, RmpConfig, Role, RoleState, Sealing};

const SERVICE: &str = "service.example";
const HANDLER: u16 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    play(&words)
}

pub(crate) fn play(words: &[&str]) -> Result<(), Box<dyn Error>> {
    match words {
        [name, "serve"] => serve(open(name)?),
        [name, "ask", text] => ask(open(name)?, text),
        _ => Err("usage: handler NAME serve | handler NAME ask TEXT".into()),
    }
}

pub(crate) fn open(name: &str) -> Result<Groups, Box<dyn Error>> {
    let group = env::var("GROUP").unwrap_or_else(|_| "239.192.79.9:4840".into());
    let member = Member::builder(name, group.parse()?, Sealing::Insecure);
    let interface = env::var("INTERFACE").unwrap_or_else(|_| "127.0.0.1".into());
    let member = member.interface(interface.parse()?);
    let member = match env::var("ORDER").as_deref() {
        Ok("rmp") => member.rmp(RmpConfig::lan()),
        _ => member,
    };
    Ok(Groups::open(member.join()?)?)
}

/// Waits for the handler, and answers from when it has it.
fn serve(mut groups: Groups) -> Result<(), Box<dyn Error>> {
    groups.join(SERVICE)?;
    groups.claim(SERVICE, Role::Handler(HANDLER), true)?;
    loop {
        match groups.next_event(Duration::from_secs(1))? {
            Some(ClientEvent::Role(notice)) => match notice.state {
                RoleState::Held => println!("the handler is here"),
                RoleState::Waits { holder } => println!("{holder} has the handler"),
                RoleState::Lost { holder } => {
                    // Two had it while they did not know of each other; the later one waits now.
                    println!("{holder} had the handler before");
                    groups.claim(SERVICE, Role::Handler(HANDLER), true)?;
                }
                RoleState::Refused { text, .. } => println!("not to be had: {text}"),
                _ => {}
            },
            Some(ClientEvent::Asked(asked)) => {
                // Delivered is not yet processed: only the answer says so.
                let text = String::from_utf8_lossy(&asked.payload).to_uppercase();
                groups.answer(&asked, text.as_bytes())?;
            }
            _ => {}
        }
    }
}

/// Asks whenever the others change, until somebody who has the handler answers. A guest need not be
/// in the group; this one is, because it is alone at first, and the views say when it is not.
fn ask(mut groups: Groups, text: &str) -> Result<(), Box<dyn Error>> {
    let ask = Ask {
        handler: Some(HANDLER),
        ..Ask::default()
    };
    groups.join(SERVICE)?;
    loop {
        match groups.next_event(Duration::from_secs(1))? {
            Some(ClientEvent::View(view)) if view.members.len() > 1 => {
                groups.ask(SERVICE, ask, text.as_bytes())?;
            }
            Some(ClientEvent::Answer { from, payload, .. }) => {
                println!("{from}: {}", String::from_utf8_lossy(&payload));
                return Ok(groups.close(Duration::from_secs(5))?);
            }
            None => eprintln!("no answer yet: does a replica serve?"),
            _ => {}
        }
    }
}
