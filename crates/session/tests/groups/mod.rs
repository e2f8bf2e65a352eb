//! Groups over a few daemons: one behaviour a test, the whole story of what a client saw.

mod changes;
mod clients;
mod exchange;
mod guests;
mod limits;
mod messages;
mod rules;
mod slow;
mod spill;
mod tokens;

use groupcast_core::{MemberId, Rng};
use groupcast_session::{ClientId, EngineConfig};

use crate::world::World;

/// Two daemons in one configuration, with a client each.
fn pair() -> (World, Rng, [(MemberId, ClientId); 2]) {
    pair_with(EngineConfig::default())
}

fn pair_with(config: EngineConfig) -> (World, Rng, [(MemberId, ClientId); 2]) {
    let mut world = World::with_config(2, config);
    let mut rng = Rng::new(1);
    let (one, two) = (world.member(1), world.member(2));
    world.divide(&[vec![one, two]], &mut rng);
    world.run(&mut rng);
    let al = (one, world.connect(one, "al"));
    let bo = (two, world.connect(two, "bo"));
    (world, rng, [al, bo])
}

fn story(world: &mut World, (member, id): (MemberId, ClientId)) -> Vec<String> {
    world.client(member, id).story()
}
