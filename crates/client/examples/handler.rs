//! A replicated service with one handler: all replicas hear the group, one of them answers, and
//! when it dies the next goes on. A guest asks it without being a member.
//!
//! Start daemons as the README shows, then two replicas beside them, and ask:
//!
//! ```text
//! cargo run --release -p groupcast-client --example handler -- /tmp/gc-1.sock serve
//! cargo run --release -p groupcast-client --example handler -- /tmp/gc-2.sock serve
//! cargo run --release -p groupcast-client --example handler -- /tmp/gc-3.sock ask hello
//! ```
//!
//! Kill the replica that has the handler, and ask again.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use groupcast_client::{Address, Ask, Client, ClientEvent, Options, Role, RoleState};

const GROUP: &str = "handler.example";
const HANDLER: u16 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [socket, "serve"] => serve(&Address::from(Path::new(socket))),
        [socket, "ask", text] => ask(&Address::from(Path::new(socket)), text),
        _ => Err("usage: handler SOCKET serve | handler SOCKET ask TEXT".into()),
    }
}

/// Waits for the handler, and answers from when it has it.
fn serve(address: &Address) -> Result<(), Box<dyn Error>> {
    let mut client = Client::connect(address, Options::default())?;
    let name = client.private_name().to_owned();
    client.join(GROUP)?;
    client.claim(GROUP, Role::Handler(HANDLER), true)?;
    while let Some(event) = client.next_event(None)? {
        match event {
            ClientEvent::Role(notice) => match notice.state {
                RoleState::Held => println!("this replica has the handler"),
                RoleState::Waits { holder } => println!("{holder} has it: this one waits"),
                RoleState::Released => println!("this replica has given the handler back"),
                RoleState::Lost { holder } => println!("{holder} has it now"),
                RoleState::Refused { text, .. } => println!("not to be had: {text}"),
                _ => {}
            },
            ClientEvent::Asked(asked) => {
                // A real service applies the request first. Delivered is not yet processed: only
                // the answer says so.
                let text = String::from_utf8_lossy(&asked.payload).to_uppercase();
                client.answer(&asked, format!("{text} (by {name})").as_bytes())?;
                println!("answered {}", asked.guest);
            }
            ClientEvent::Disconnected { text, .. } => return Err(text.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Asks once, and waits for the answer or the reason why there is none.
fn ask(address: &Address, text: &str) -> Result<(), Box<dyn Error>> {
    let mut client = Client::connect(address, Options::default())?;
    let ask = Ask {
        handler: Some(HANDLER),
        within: Duration::from_secs(5),
        ..Ask::default()
    };
    client.ask(GROUP, ask, text.as_bytes())?;
    while let Some(event) = client.next_event(None)? {
        match event {
            ClientEvent::Answer { payload, .. } => {
                println!("{}", String::from_utf8_lossy(&payload));
            }
            ClientEvent::Ended {
                ending, answers, ..
            } => {
                println!("{answers} answers: {ending}");
                break;
            }
            ClientEvent::Disconnected { text, .. } => return Err(text.into()),
            _ => {}
        }
    }
    client.close(Duration::from_secs(5))?;
    Ok(())
}
