//! Groups, agreed and bimodal, over several daemons in one test: stories by hand, and random
//! schedules.

mod bimodal;
mod bus;
mod groups;
mod made;
mod orders;
mod rings;
mod schedules;
mod world;
