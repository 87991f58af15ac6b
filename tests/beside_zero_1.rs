//! ZeRO-3 beside ZeRO-1 on models that people train: where it does not pay, the user hears of it, and what each rank keeps
//! resident stays below what makes it pay.

use std::path::Path;

use pipezero_config::{
    Checkpointing, GptConfig, ModelConfig, PartitionConfig, Precision, ResidencyConfig, Run, ShardingConfig,
    UnitLayers, VocabularyConfig, ZeroLevel,
};
use pipezero_plan::{Plan, PlanError};
use tests::{Case, Draws, Sample, Schedule, example, small_gpt, small_run, zero};

/// Layers, width and heads from GPT-2's 124 million parameters to GPT-3's 175 billion.
const SHAPES: [(usize, usize, usize); 8] = [
    (12, 768, 12),
    (24, 1024, 16),
    (24, 2048, 16),
    (32, 4096, 32),
    (40, 5120, 40),
    (48, 7168, 56),
    (80, 8192, 64),
    (96, 12288, 96),
];

/// What turns the 124M example into a model of 32 layers with 128,256 tokens.
const LARGE_VOCABULARY: [&str; 7] = [
    "model.num_layers=32",
    "model.hidden_size=4096",
    "model.num_attention_heads=32",
    "model.seq_length=2048",
    "model.vocab_size=128256",
    "model.tie_embeddings=false",
    "parallel.pipeline=8",
];

fn random_run(draws: &mut Draws) -> Run {
    let (num_layers, hidden_size, num_attention_heads) = draws.of(&SHAPES);
    let pipelines: Vec<usize> = (1..=16).filter(|&pipeline| 2 * pipeline <= num_layers).collect();
    let pipeline = draws.of(&pipelines);
    let case = Case {
        pipeline,
        data: draws.of(&[2, 3, 4, 8, 16, 32, 64]),
        num_micro_batches: pipeline * draws.of(&[1, 2, 4]),
        schedule: draws.of(&[Schedule::OneFOneB, Schedule::OneFOneB, Schedule::GPipe, Schedule::Eager]),
        tied: draws.of(&[false, true]),
        precision: draws.of(&[Precision::F32, Precision::Bf16]),
        checkpointing: draws.of(&[Checkpointing::Off, Checkpointing::Unit]),
        num_layers,
        zero: zero(ZeroLevel::Zero3, ResidencyConfig::Level, draws.of(&[0, 1, 1])),
        vocabulary: VocabularyConfig::default(),
        ..Case::ONE_RANK
    };
    let model = ModelConfig::Gpt2(GptConfig {
        num_layers,
        hidden_size,
        num_attention_heads,
        seq_length: draws.of(&[1024, 2048]),
        vocab_size: draws.of(&[256, 32_000, 50_304, 128_256, 256_000]),
        ..small_gpt(case.tied)
    });
    let mut run = Run { model, ..small_run(case) };
    run.zero.unit_layers =
        draws.of(&[UnitLayers::Half, UnitLayers::ONE, UnitLayers::of_blocks(2).expect("2 is not 0")]);
    run.parallel.partition = draws.of(&[PartitionConfig::Uniform, PartitionConfig::Balanced]);
    run
}

/// Peak memory of each pipeline rank.
fn peaks(plan: &Plan) -> Vec<u64> {
    plan.forecast().iter().step_by(plan.grid().data_degree).map(|rank| rank.memory.peak).collect()
}

#[test]
fn wherever_it_does_not_pay_a_warning_says_so() {
    let mut sample = Sample::one_in(20, "random model and grid under ZeRO-3, beside itself under ZeRO-1");
    let mut draws = Draws(1);
    let (mut num_ranks, mut num_above, mut num_refused, mut num_warned) = (0, 0, 0, 0);
    let (mut shares, mut kept) = (Vec::new(), [0, 0]);
    while sample.num_cases() < 2000 {
        let run = random_run(&mut draws);
        if !sample.takes_next() {
            continue;
        }
        let plan = match Plan::new(run.clone()) {
            Ok(plan) => plan,
            Err(PlanError::LoneUnit(_)) => {
                num_refused += 1;
                continue;
            }
            Err(error) => panic!("{error}: {run:?}"),
        };
        let ranks = plan.beside_zero_1();
        let pays = ranks
            .iter()
            .all(|rank| 20 * u128::from(rank.peak_bytes) <= 19 * u128::from(rank.zero_1_peak_bytes));
        let warnings =
            plan.diagnostics().into_iter().filter(|found| found.text.contains("ZeRO-3 does not pay")).count();
        assert_eq!(warnings, usize::from(!pays), "{run:?}");
        num_warned += warnings;
        let fullest = ranks.iter().map(|rank| rank.peak_bytes).max().expect("some rank");
        for (rank, peak) in ranks.iter().zip(peaks(&plan)) {
            let paying = u128::from(rank.zero_1_peak_bytes) * 19 / 20;
            let bound = u128::from(fullest).min(paying).max(rank.peak_bytes.into());
            assert!(
                u128::from(peak) <= bound,
                "{peak} of {bound} bytes on rank {}: {run:?}",
                rank.pipeline_rank
            );
            num_ranks += 1;
            num_above += usize::from(rank.peak_bytes > rank.zero_1_peak_bytes);
            shares.push(rank.peak_share());
        }
        // Rows of a table: the fewest resident units, and level.
        let costs = plan.residencies().expect("a valid run");
        let gathers = |of: &ResidencyConfig| {
            costs.iter().find(|cost| cost.resident_units == *of).map(|cost| cost.num_gathers_of_all)
        };
        let least = ResidencyConfig::Units(1 + run.zero.prefetch_units);
        if let (Some(least), Some(level)) = (gathers(&least), gathers(&ResidencyConfig::Level)) {
            assert!(level <= least, "{run:?}");
            kept[0] += least;
            kept[1] += level;
        }
    }
    shares.sort_by(f64::total_cmp);
    println!(
        "{num_ranks} ranks, {:.1} % of them above ZeRO-1, median share {:.3}; {num_warned} runs warned of, {num_refused} refused; \
         gathers with level {:.1} % of those with the fewest resident units",
        100.0 * num_above as f64 / num_ranks as f64,
        shares[shares.len() / 2],
        100.0 * kept[1] as f64 / kept[0] as f64
    );
    assert!(num_ranks > 300 && num_warned > 10, "{num_ranks} ranks, {num_warned} warned of");
}

/// With the list that the plan makes no rank needs more than under ZeRO-1, whatever the model and the grid, and no run is refused.
#[test]
fn with_auto_sharding_no_rank_needs_more_than_under_zero_1() {
    let mut sample = Sample::one_in(
        20,
        "random model and grid under ZeRO-3 with auto sharding, beside itself under ZeRO-1",
    );
    let mut draws = Draws(1);
    let mut runs = Vec::new();
    while sample.num_cases() < 2000 {
        let run = random_run(&mut draws);
        if sample.takes_next() {
            runs.push(run);
        }
    }
    runs.extend(examples_on(&["2", "8"]));
    let mut shares: Vec<(usize, f64)> = Vec::new();
    let mut sent = [0.0, 0.0];
    for run in runs {
        let mut auto = run.clone();
        auto.zero.sharding = ShardingConfig::Auto;
        let plan = Plan::new(auto).unwrap_or_else(|error| panic!("{error}: {run:?}"));
        assert!(!plan.beside_zero_1().is_empty(), "{run:?}");
        for rank in plan.beside_zero_1() {
            assert!(rank.peak_bytes <= rank.zero_1_peak_bytes, "{rank:?}: {run:?}");
            shares.push((run.parallel.data, rank.peak_share()));
            sent[0] += rank.sent_bytes as f64;
            sent[1] += rank.zero_1_sent_bytes as f64;
        }
    }
    let median = |data: &dyn Fn(usize) -> bool| {
        let mut of_data: Vec<f64> = shares.iter().filter(|of| data(of.0)).map(|of| of.1).collect();
        of_data.sort_by(f64::total_cmp);
        of_data[of_data.len() / 2]
    };
    println!(
        "{} ranks, median share {:.3} of ZeRO-1's peak, {:.3} at 2 data ranks, {:.3} from 8 on; {:.1} times its bytes sent",
        shares.len(),
        median(&|_| true),
        median(&|data| data == 2),
        median(&|data| data >= 8),
        sent[0] / sent[1]
    );
    assert!(shares.len() > 300, "{} ranks", shares.len());
}

/// All example run files under ZeRO-3, on so many data ranks.
fn examples_on(data_degrees: &[&str]) -> Vec<Run> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/configs");
    let files = std::fs::read_dir(folder).expect("the examples");
    let mut names: Vec<String> =
        files.map(|file| file.expect("a file").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    // A master file has run files of several models.
    names.retain(|name| name != "pair.json" && name != "distill.json");
    let on = |name: &str, data: &str| {
        let keys = ["zero_optimization.stage=3", "zero_optimization.reduce=every", "train_batch_size=auto"];
        let sizes = ["train_micro_batch_size_per_gpu=1", "gradient_accumulation_steps=8"];
        example(name, &[&keys[..], &sizes, &[&format!("parallel.data={data}")]].concat())
    };
    names.iter().flat_map(|name| data_degrees.iter().map(move |data| on(name, data))).collect()
}

/// Model states of each pipeline rank: all but activations and messages.
fn states(plan: &Plan) -> Vec<u64> {
    let ranks = plan.forecast().into_iter().step_by(plan.grid().data_degree);
    ranks.map(|rank| rank.memory.peak - rank.memory.activations - rank.memory.communication).collect()
}

/// The table of `docs/zero.md`: what the fullest rank needs at 2 data ranks under ZeRO-1, with everything sharded, and with the list
/// that needs least.
#[test]
fn the_page_on_zero_says_what_two_data_ranks_can_reach() {
    const MIB: f64 = 1024.0 * 1024.0;
    const GIB: f64 = 1024.0 * MIB;
    let two = [
        "parallel.data=2",
        "train_batch_size=auto",
        "zero_optimization.prefetch_units=1",
        "zero_optimization.resident_units=2",
    ];
    let bf16 = ["bf16.enabled=true"];
    for (file, own, unit, expected) in [
        ("gpt2-124m.json", vec![], GIB, ["2.32", "2.24", "2.24"]),
        ("gpt2-124m.json", bf16.to_vec(), GIB, ["1.63", "1.50", "1.50"]),
        ("gpt2-124m.json", [&bf16[..], &LARGE_VOCABULARY].concat(), GIB, ["38.38", "35.73", "35.73"]),
        ("seed-48-layers.json", vec![], MIB, ["3.83", "4.13", "3.83"]),
    ] {
        let plan = |sharding: &str| {
            let sharding = format!("zero_optimization.sharding={sharding}");
            Plan::new(example(file, &[&own[..], &two, &[&sharding]].concat())).expect("a valid run")
        };
        let fullest =
            |peaks: Vec<u64>| format!("{:.2}", peaks.into_iter().max().expect("a rank") as f64 / unit);
        let (sharded, chosen) = (plan("listed"), plan("auto"));
        let (sharded, chosen) = (sharded.beside_zero_1(), chosen.beside_zero_1());
        let found = [
            fullest(sharded.iter().map(|rank| rank.zero_1_peak_bytes).collect()),
            fullest(sharded.iter().map(|rank| rank.peak_bytes).collect()),
            fullest(chosen.iter().filter_map(|rank| rank.least_tried_peak_bytes).collect()),
        ];
        assert_eq!(found, expected, "{file} {own:?}");
    }
}

/// Models with large vocabularies at data degrees from 4 on: with the fewest resident units every rank's model states are at least 10%
/// below those under ZeRO-1.
#[test]
fn model_states_of_large_vocabularies_are_a_tenth_below_zero_1() {
    let small = ["parallel.data=8", "bf16.enabled=true", "train_batch_size=auto"];
    let large = [&small[..], &LARGE_VOCABULARY].concat();
    for (file, own) in [
        ("gpt2-124m.json", &small[..]),
        ("gpt2-124m.json", &large),
        ("seed-48-layers.json", &["parallel.data=8", "train_batch_size=auto"]),
    ] {
        let plan = |zero: &[&str]| {
            let more = [own, zero, &["activation_checkpointing.head_logits=keep"]].concat();
            Plan::new(example(file, &more)).expect("a valid run")
        };
        let zero_3 = plan(&["zero_optimization.stage=3", "zero_optimization.resident_units=2"]);
        let zero_1 = plan(&["zero_optimization.stage=1"]);
        for (rank, (own, of_zero_1)) in states(&zero_3).into_iter().zip(states(&zero_1)).enumerate() {
            let share = own as f64 / of_zero_1 as f64;
            println!("{file} {own} bytes of model states, {share:.3} of ZeRO-1's, on rank {rank}");
            assert!(share <= 0.9, "rank {rank} of {file} {own:?}: {share:.3}");
        }
    }
}
