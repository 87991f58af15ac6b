//! Values of a run's features that tests combine pair by pair.

use std::ops::RangeInclusive;

use pipezero_config::{
    Checkpointing, HeadLogits, OverlapComm, Precision, ReductionPolicy, ResidencyConfig, UnitLayers,
    VocabularyConfig, ZeroConfig, ZeroLevel,
};

use crate::{Case, FP16, Family, NO_ZERO, Schedule, pairwise};

/// Blocks of the model: enough for the most stages, 4 ranks of 3 stages.
const NUM_LAYERS: usize = 12;

/// How large units are.
pub const UNITS: [UnitLayers; 3] =
    [UnitLayers::Half, UnitLayers::ONE, UnitLayers::of_blocks(2).expect("2 is not 0")];

/// Types of parameters and activations.
pub const PRECISIONS: [Precision; 3] = [Precision::F32, Precision::Bf16, FP16];

/// What is recomputed.
pub const CHECKPOINTING: [Checkpointing; 3] =
    [Checkpointing::Off, Checkpointing::Unit, Checkpointing::Layers(1)];

/// Families, whether the head uses the embedding's weight, and whether tokens see their own document alone.
pub const MODELS: [(Family, bool, bool); 6] = [
    (Family::Gpt2, false, false),
    (Family::Gpt2, true, false),
    (Family::Llama, false, false),
    (Family::Llama, true, false),
    (Family::Gpt2, true, true),
    (Family::Llama, false, true),
];

/// Data degrees.
pub const DATA: [usize; 3] = [1, 2, 3];

/// Pipeline ranks and their schedule.
pub const GRIDS: [(usize, Schedule); 22] = {
    use Schedule::{Bfs, Eager, GPipe, Grouped, Interleaved, OneFOneB, ZbH1, ZbH2, ZbV};
    [
        (1, OneFOneB),
        (2, GPipe),
        (2, OneFOneB),
        (2, Eager),
        (2, Interleaved { virtual_stages: 2 }),
        (2, Interleaved { virtual_stages: 3 }),
        (2, Grouped { virtual_stages: 2, group_size: 3 }),
        (2, Bfs { virtual_stages: 2 }),
        (2, Bfs { virtual_stages: 3 }),
        (4, GPipe),
        (4, OneFOneB),
        (4, Eager),
        (4, Interleaved { virtual_stages: 2 }),
        (4, Interleaved { virtual_stages: 3 }),
        (4, Grouped { virtual_stages: 2, group_size: 5 }),
        (4, Bfs { virtual_stages: 2 }),
        (4, Bfs { virtual_stages: 3 }),
        (2, ZbH1),
        (2, ZbV),
        (4, ZbH1),
        (4, ZbH2),
        (4, ZbV),
    ]
};

/// Which gathered units stay.
#[derive(Clone, Copy, Debug)]
pub enum Resident {
    /// None.
    Strict,
    /// So many beyond what prefetching needs.
    Beyond(usize),
    /// One, two and three beyond it, in turn for the pipeline ranks.
    InTurn,
    /// As many as leave each rank at the level of the fullest.
    Level,
    /// All.
    All,
}

/// When gradients are reduced.
#[derive(Clone, Copy, Debug)]
pub enum Reduced {
    /// After every micro-batch, while the next is computed.
    Every,
    /// After every micro-batch, before the next is computed.
    EveryAlone,
    /// Once.
    Last,
}

/// Level, policy, residency, prefetch.
pub const ZERO: [(ZeroLevel, Reduced, Resident, usize); 21] = {
    use Reduced::{Every, EveryAlone, Last};
    use Resident::{All, Beyond, InTurn, Level, Strict};
    use ZeroLevel::{Zero0, Zero1, Zero3};
    [
        (Zero0, Last, Strict, 0),
        (Zero1, Last, Strict, 0),
        (Zero3, Every, Strict, 0),
        (Zero3, Every, Strict, 1),
        (Zero3, Every, Strict, 2),
        (Zero3, Every, Strict, 3),
        (Zero3, Every, Beyond(0), 0),
        (Zero3, Every, Beyond(1), 1),
        (Zero3, Every, Beyond(0), 2),
        (Zero3, Every, Beyond(2), 3),
        (Zero3, Every, InTurn, 0),
        (Zero3, Every, Level, 0),
        (Zero3, Every, Level, 1),
        (Zero3, Every, All, 0),
        (Zero3, Every, All, 1),
        (Zero3, EveryAlone, Strict, 0),
        (Zero3, EveryAlone, Beyond(1), 1),
        (Zero3, EveryAlone, Level, 1),
        (Zero3, Last, Strict, 1),
        (Zero3, Last, Beyond(1), 0),
        (Zero3, Last, All, 2),
    ]
};

/// A vocabulary of three blocks, the last of them short.
const VOCAB_SIZE: usize = 2100;

/// Slices of the vocabulary's tables, and what becomes of logits.
pub const VOCABULARIES: [(usize, HeadLogits); 6] = {
    use HeadLogits::{Keep, Recompute};
    [(1, Keep), (1, Recompute), (2, Keep), (2, Recompute), (3, Keep), (3, Recompute)]
};

/// The case of a value of each list: of [`GRIDS`], [`ZERO`], [`UNITS`], [`PRECISIONS`], [`CHECKPOINTING`], [`MODELS`], [`DATA`]
/// and [`VOCABULARIES`].
pub fn case_of([grid, zero, units, precision, checkpointing, model, data, vocabulary]: [usize; 8]) -> Case {
    let (pipeline, schedule) = GRIDS[grid];
    let (level, reduced, resident, prefetch_units) = ZERO[zero];
    let (reduce, overlap_comm) = match reduced {
        Reduced::Every => (ReductionPolicy::Every, OverlapComm::True),
        Reduced::EveryAlone => (ReductionPolicy::Every, OverlapComm::False),
        Reduced::Last => (ReductionPolicy::Last, OverlapComm::True),
    };
    let resident_units = match resident {
        Resident::Strict => ResidencyConfig::Strict,
        Resident::Beyond(beyond) => ResidencyConfig::Units(1 + prefetch_units + beyond),
        Resident::InTurn => {
            ResidencyConfig::PerRank((0..pipeline).map(|rank| 2 + prefetch_units + rank % 3).collect())
        }
        Resident::Level => ResidencyConfig::Level,
        Resident::All => ResidencyConfig::All,
    };
    let (family, tied, document_attention) = MODELS[model];
    let unit_layers = UNITS[units];
    // A split backward is not recomputed.
    let checkpointing =
        if schedule.splits_backwards() { Checkpointing::Off } else { CHECKPOINTING[checkpointing] };
    let (num_slices, head_logits) = VOCABULARIES[vocabulary];
    let head_logits = if schedule.splits_backwards() { HeadLogits::Keep } else { head_logits };
    Case {
        pipeline,
        data: DATA[data],
        num_micro_batches: 5,
        schedule,
        zero: ZeroConfig {
            level,
            reduce,
            overlap_comm,
            resident_units,
            prefetch_units,
            unit_layers,
            ..NO_ZERO
        },
        family,
        tied,
        document_attention,
        num_layers: NUM_LAYERS,
        precision: PRECISIONS[precision],
        checkpointing,
        vocab_size: VOCAB_SIZE,
        vocabulary: VocabularyConfig::new(num_slices, head_logits),
        ..Case::ONE_RANK
    }
}

/// Cases on so many ranks in which every pair of features occurs. A grid, with its schedule and its data degree, is one feature: were they two, pairs
/// would be lost with the cases that have another number of ranks.
pub fn pairs_on(num_ranks: RangeInclusive<usize>) -> Vec<Case> {
    let grids = (0..GRIDS.len()).flat_map(|grid| (0..DATA.len()).map(move |data| (grid, data)));
    let fits = |&(grid, data): &(usize, usize)| num_ranks.contains(&(GRIDS[grid].0 * DATA[data]));
    let grids: Vec<(usize, usize)> = grids.filter(fits).collect();
    let sizes = [
        grids.len(),
        ZERO.len(),
        UNITS.len(),
        PRECISIONS.len(),
        CHECKPOINTING.len(),
        MODELS.len(),
        VOCABULARIES.len(),
    ];
    let case = |[grid, zero, units, precision, checkpointing, model, vocabulary]: [usize; 7]| {
        let (grid, data) = grids[grid];
        case_of([grid, zero, units, precision, checkpointing, model, data, vocabulary])
    };
    pairwise(sizes).into_iter().map(case).collect()
}
