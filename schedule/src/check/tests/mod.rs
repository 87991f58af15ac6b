//! The checker against two independent judges: a reference that plays rows with real buffers, and a machine that
//! starts and ends instructions at random.

mod accepted;
mod cycles;
mod looped;
mod machine;
mod mutations;
mod reference;
mod rules;
mod without_backward;
