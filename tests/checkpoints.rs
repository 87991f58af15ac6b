//! Checkpoints: what one grid has written, any other goes on from, with every bit of weights and optimizer state.

use std::path::Path;
use std::sync::Arc;

use pipezero_config::{
    Checkpointing, HeadLogits, Precision, ReductionPolicy, ResidencyConfig, Run, ShardingConfig,
    ShardingRule, UnitLayers, UnitSharding, VocabularyConfig, ZeroConfig, ZeroLevel,
};
use pipezero_run::checkpoint::{CheckpointReader, Checkpoints, Cursor};
use pipezero_run::engine::{AboutRun, Engine};
use tests::{Case, Draws, FP16, Mask, Sample, Schedule, small_run, started, zero};

/// What two grids must share so that training goes on with the same bits.
#[derive(Clone, Copy, PartialEq)]
struct Promise {
    data: usize,
    reduce: ReductionPolicy,
    precision: Precision,
}

/// A run on any grid that sees 24 sequences in each step.
fn draw(draws: &mut Draws, tied: bool, promise: Promise, kinds: &[UnitSharding]) -> Run {
    use ZeroLevel::{Zero0, Zero1, Zero2, Zero3};
    let Promise { data, reduce, precision } = promise;
    let pipeline = draws.of(&[1, 2, 3, 4]);
    let level = draws.of(match (reduce, pipeline) {
        (ReductionPolicy::Last, _) => &[Zero0, Zero1, Zero3][..],
        (ReductionPolicy::Every, 1) => &[Zero2, Zero3],
        (ReductionPolicy::Every, _) => &[Zero3],
    });
    let residency = draws.of(&[ResidencyConfig::Strict, ResidencyConfig::Units(2), ResidencyConfig::All]);
    let unit_layers = draws.of(&[UnitLayers::Half, UnitLayers::ONE]);
    let sharding = draws.of(kinds);
    let sharding = if level == Zero3 && sharding != UnitSharding::Sharded {
        let pattern = draws.of(&[r"h\.[24]\.", ".", "bias|ln_"]).to_owned();
        ShardingConfig::Listed(vec![ShardingRule { sharding, pattern }])
    } else {
        ShardingConfig::SHARDED
    };
    let case = Case {
        pipeline,
        data,
        num_micro_batches: 12 / data,
        schedule: match pipeline {
            1 => Schedule::OneFOneB,
            _ => draws.of(&[
                Schedule::OneFOneB,
                Schedule::GPipe,
                Schedule::Eager,
                Schedule::ZbH1,
                Schedule::Interleaved { virtual_stages: 2 },
            ]),
        },
        zero: ZeroConfig { reduce, unit_layers, sharding, ..zero(level, residency, 1) },
        tied,
        num_layers: 9,
        precision,
        vocab_size: 1500,
        vocabulary: VocabularyConfig::new(draws.of(&[1, 2]), HeadLogits::Keep),
        checkpointing: Checkpointing::Off,
        ..Case::ONE_RANK
    };
    small_run(case)
}

fn save(engine: &mut Engine, to: &Path) -> CheckpointReader {
    let checkpoints = Checkpoints::of_run(to);
    engine.write_checkpoint(&checkpoints, &AboutRun::default()).expect("a checkpoint is written");
    let step = engine.position().step;
    CheckpointReader::open(&checkpoints.at(step)).expect("a sound checkpoint")
}

/// Every element of every parameter and of its optimizer state, as bits.
fn state(from: &CheckpointReader) -> Vec<(String, Vec<u32>)> {
    let manifest = from.manifest();
    let (mut found, mut cursor) = (Vec::new(), Cursor::new(from));
    for parameter in &manifest.parameters {
        for kind in &manifest.kinds {
            let mut values = vec![f32::NAN; parameter.num_elements()];
            cursor.read(kind, &parameter.name, 0, &mut values).expect("sound elements");
            found
                .push((format!("{kind} {}", parameter.name), values.into_iter().map(f32::to_bits).collect()));
        }
    }
    found
}

#[track_caller]
fn assert_same_state(got: &CheckpointReader, want: &CheckpointReader, name: &str) {
    assert_eq!(got.manifest().position, want.manifest().position, "{name}");
    if let (Some(got), Some(want)) = (got.manifest().loss_scale, want.manifest().loss_scale) {
        assert_eq!(got, want, "{name}");
    }
    for ((what, got), (_, want)) in state(got).iter().zip(&state(want)) {
        assert!(got == want, "{what}: {name}");
    }
}

fn steps(engine: &mut Engine, num: usize) -> Vec<Option<u64>> {
    (0..num).map(|_| engine.train_batch().expect("a step").loss.map(f64::to_bits)).collect()
}

#[test]
fn every_grid_goes_on_from_what_any_other_wrote() {
    let mut sample = Sample::one_in(8, "checkpoint of one grid, read on another");
    let mut draws = Draws(3);
    let mut num_gone_on = 0;
    for pair in 0..240 {
        let tied = draws.of(&[false, true]);
        let promise = |draws: &mut Draws| Promise {
            data: draws.of(&[1, 2, 3, 4]),
            reduce: draws.of(&[ReductionPolicy::Every, ReductionPolicy::Last]),
            precision: draws.of(&[Precision::F32, Precision::Bf16, FP16]),
        };
        let written = promise(&mut draws);
        let read = if pair % 2 == 0 { written } else { promise(&mut draws) };
        // What is whole is reduced once, which is other sums.
        let kinds = [UnitSharding::Sharded, UnitSharding::Persistent, UnitSharding::Whole];
        let kinds = if pair % 2 == 0 { &kinds[..2] } else { &kinds };
        let (first, second) = (draw(&mut draws, tied, written, kinds), draw(&mut draws, tied, read, kinds));
        if !sample.takes_next() {
            continue;
        }
        let name = format!("{pair}: {first:?} to {second:?}");
        let home = tempfile::tempdir().expect("a temporary folder");
        let mut engine = started(Engine::new, first, Mask::Uneven);
        steps(&mut engine, 2);
        let from = save(&mut engine, &home.path().join("first"));
        let mut other = started(Engine::new, second, Mask::Uneven);
        // Other values, so that what is not read shows.
        steps(&mut other, 1);
        let from = Arc::new(from);
        other.resume(&from).expect("state is read");
        let again = save(&mut other, &home.path().join("second"));
        assert_same_state(&again, &from, &name);
        if pair % 2 == 0 {
            num_gone_on += 1;
            assert_eq!(steps(&mut other, 3), steps(&mut engine, 3), "losses: {name}");
            let ends = [("first", engine), ("second", other)];
            let [want, got] = ends.map(|(folder, mut engine)| save(&mut engine, &home.path().join(folder)));
            assert_same_state(&got, &want, &name);
        }
    }
    assert!(num_gone_on > 10, "{num_gone_on} pairs went on");
}
