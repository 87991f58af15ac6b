//! A device that fails while a rank's state is copied to the host: the checkpoint that was being written gets no name, whether training waits for
//! it or goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pipezero_config::ZeroLevel;
use pipezero_run::checkpoint::Checkpoints;
use pipezero_run::engine::{AboutRun, Engine, EngineError};
use pipezero_run::world::{NamedDevice, ThreadWorld, World};
use tests::{Mask, Moment, Phase, RandomBatches, Trap, TrapDevice};

use super::{NUM_RANKS, RANKS, STEP, TIMEOUT, plan};

#[test]
fn a_checkpoint_whose_values_were_not_copied_gets_no_name() {
    for rank in RANKS {
        for waits in [true, false] {
            let saves = Arc::new(AtomicBool::new(false));
            let is_saving = Arc::clone(&saves);
            let moment = Moment { rank, phase: Phase::Saving, step: STEP };
            let trap = Trap::without_copies(moment, move || is_saving.load(Ordering::Acquire));
            let device =
                NamedDevice { device: Arc::new(TrapDevice(Arc::clone(&trap))), name: "trap".to_owned() };
            let world = Arc::new(ThreadWorld::on(&[device], NUM_RANKS, TIMEOUT, None));
            trap.arm(world.positions());
            let plan = plan(ZeroLevel::Zero3);
            let source = Arc::new(RandomBatches::for_plan(&plan, Mask::None));
            let mut engine = Engine::in_world(plan, source, world).expect("ranks start");
            let home = tempfile::tempdir().expect("a folder");
            let checkpoints = Checkpoints::of_run(home.path());
            engine.train_batch().expect("a step");
            engine.write_checkpoint(&checkpoints, &AboutRun::default()).expect("a checkpoint");
            engine.train_batch().expect("a step");
            saves.store(true, Ordering::Release);
            let failed = if waits {
                engine.write_checkpoint(&checkpoints, &AboutRun::default())
            } else {
                let about = AboutRun::default();
                engine.start_checkpoint(&checkpoints, &about).and_then(|()| engine.finish_checkpoint())
            };
            let what = format!("rank {rank}, waits: {waits}");
            assert!(trap.failed_at().is_some(), "{what}");
            assert!(matches!(&failed, Err(EngineError::Stopped(_))), "{what}: {failed:?}");
            drop(engine);
            assert!(checkpoints.at(1).exists() && !checkpoints.at(2).exists(), "{what}");
        }
    }
}
