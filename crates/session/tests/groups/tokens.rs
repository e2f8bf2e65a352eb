//! What clients over TCP must have to be taken: the token that their daemon asks for.

use groupcast_core::{Incarnation, MemberId, NodeId, Time};
use groupcast_session::client::{ClientEvent, Connection};
use groupcast_session::frame::{AccessToken, ClientKind};
use groupcast_session::groups::{Fact, Transport};
use groupcast_session::{Engine, EngineConfig};

const TOKEN: [u8; AccessToken::LEN] = [7; AccessToken::LEN];

fn engine() -> Engine {
    let local = MemberId {
        node: NodeId(1),
        incarnation: Incarnation(1),
    };
    Engine::new(EngineConfig::default(), local, "h").expect("the settings are valid")
}

/// Whether a client with `token` is welcome, and what the log says if not.
fn welcome(engine: &mut Engine, over: Transport, token: Option<[u8; 32]>) -> Result<(), String> {
    let token = token.map(AccessToken::from_bytes);
    let mut client = Connection::with_token(None, ClientKind::Application, 1 << 20, token);
    let hello = client.poll_transmit().expect("a hello").to_vec();
    let accepted = engine.counters().clients_accepted;
    let id = engine.connected(Time::ZERO, over).expect("there is room");
    let space = engine.space(id).expect("it is read");
    space[..hello.len()].copy_from_slice(&hello);
    engine.received(Time::ZERO, id, hello.len());
    if engine.counters().clients_accepted > accepted {
        return Ok(());
    }
    let facts = std::iter::from_fn(|| engine.poll_fact());
    let refused = facts.filter(|fact| matches!(fact, Fact::Refused { .. }));
    Err(refused.map(|fact| fact.to_string()).collect())
}

#[test]
fn a_tcp_client_without_the_token_is_refused_and_the_token_is_not_logged() {
    let mut engine = engine();
    assert_eq!(welcome(&mut engine, Transport::Tcp, None), Ok(()));
    engine.require_token(AccessToken::from_bytes(TOKEN));
    let none = welcome(&mut engine, Transport::Tcp, None).unwrap_err();
    assert!(none.contains("client_token"), "{none}");
    let other = welcome(&mut engine, Transport::Tcp, Some([8; 32])).unwrap_err();
    assert!(other.contains("another than this daemon's"), "{other}");
    assert!(
        !other.contains("0808") && !other.contains("0707"),
        "{other}"
    );
    assert_eq!(welcome(&mut engine, Transport::Tcp, Some(TOKEN)), Ok(()));
    assert_eq!(welcome(&mut engine, Transport::Unix, None), Ok(()));
}

#[test]
fn a_client_that_begins_anew_has_its_token_still() {
    let token = Some(AccessToken::from_bytes(TOKEN));
    let mut client = Connection::with_token(None, ClientKind::Application, 1 << 20, token);
    let first = client.poll_transmit().unwrap().to_vec();
    client.handle_closed("gone");
    assert!(matches!(
        client.poll_event(),
        Some(ClientEvent::Disconnected { .. })
    ));
    client.restart();
    assert_eq!(client.poll_transmit().unwrap(), first);
}
