//! One rank: what it holds, allocated once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pipezero_comm::memory::{Allocator, Category, Ledgers, Lendable, TrackedBuffer};
use pipezero_comm::world::{Position, Positions};
use pipezero_comm::{CommError, Communicator, Counting, Group};
use pipezero_models::{ElementType, ModelError, Queue};
use pipezero_plan::{MAX_GATHERED_PARTS, MAX_REDUCED_PARTS, Plan, RankSizes};
use pipezero_schedule::{Lane, PipelineRank, Stage, Unit};

use super::activations::Activations;
use super::asked_logits::AskedLogits;
use super::edges::Edges;
use super::error::Cause;
use super::in_flight::InFlight;
use super::read_fault::ReadFault;
use super::recorder::Recorder;
use super::shapes::Shapes;
use super::staging::Staging;
use super::step::Tail;
use super::step_results::StepResults;
use super::step_tokens::StepTokens;
use super::tokens_digest::TokensDigest;
use super::watch::Watch;
use crate::shard::{StoreOptions, UnitStore};

/// The groups that a rank communicates in.
#[derive(Debug)]
pub(crate) struct Groups {
    pub(crate) data: Group,
    pub(crate) world: Group,
    /// The ranks of both uses of a tied weight, at this rank's position along the data axis.
    pub(crate) tied: Option<Group>,
}

/// One rank of the grid with everything it holds.
#[derive(Debug)]
pub(crate) struct Rank {
    pub(crate) plan: Arc<Plan>,
    pub(crate) pipeline_rank: PipelineRank,
    pub(crate) data_rank: usize,
    pub(crate) comm: Counting,
    /// Where units run.
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) groups: Groups,
    pub(crate) stores: BTreeMap<Unit, UnitStore>,
    /// What units are gathered into, each lent while it holds one.
    pub(crate) gather_buffers: Vec<[Lendable<TrackedBuffer>; MAX_GATHERED_PARTS]>,
    /// `[buffer][part]`
    pub(crate) gradient_buffers: Vec<[Lendable<TrackedBuffer>; MAX_REDUCED_PARTS]>,
    pub(crate) activations: Activations,
    pub(crate) edges: Edges,
    pub(crate) shapes: Shapes,
    pub(crate) tokens: StepTokens,
    pub(crate) results: StepResults,
    /// Operations in flight, by lane in the order of their issue.
    pub(super) in_flight: BTreeMap<Lane, VecDeque<InFlight>>,
    pub(crate) tail: Tail,
    /// The copy out of which checkpoints are written, if the plan has one.
    pub(super) staging: Option<Staging>,
    /// What could not be read of the step's tokens.
    pub(super) unread: Option<ReadFault>,
    /// The digest of the step's tokens, at the ends of the pipeline.
    pub(super) tokens_digest: TokensDigest,
    /// Where the head puts logits, while they are asked for.
    pub(super) asked_logits: Option<AskedLogits>,
    /// What looks at the outputs of layers, while that is asked for.
    pub(super) watch: Option<Watch>,
    /// Where buffers come from that the plan counts.
    pub(super) memory: Allocator,
    /// Scratch memory: what commands between programs allocate.
    pub(super) scratch: Allocator,
    /// What they will take, on a GPU, while a step runs.
    pub(super) reserve: Option<TrackedBuffer>,
    pub(super) positions: Arc<Positions>,
    pub(super) recorder: Recorder,
}

impl Rank {
    /// Allocates everything that the rank will ever hold.
    pub(crate) fn new(
        plan: &Arc<Plan>,
        comm: Box<dyn Communicator>,
        ledgers: &Ledgers,
        positions: Arc<Positions>,
    ) -> Result<Self, Cause> {
        let grid = plan.grid();
        let rank = comm.rank();
        let pipeline_rank = PipelineRank(grid.pipeline_rank(rank) as u32);
        let data_rank = grid.data_rank(rank);
        let sizes = plan.sizes(pipeline_rank);
        let element_type = plan.element_type();
        let queue = Arc::clone(comm.queue());
        let allocator = |ledger| Allocator::new(Arc::clone(&queue), Arc::clone(ledger));
        let memory = allocator(&ledgers.planned);
        let mut comm = Counting::new(comm);
        let gather_buffers = gather_buffers(&sizes, element_type, &mut comm, &memory)?;
        let gradient_buffer = |len: usize| memory.zeros(len, Category::Gradients).map(Lendable::new);
        let gradient_buffers = sizes.gradient_buffers.iter();
        let gradient_buffers =
            gradient_buffers.map(|&[first, second]| Ok([gradient_buffer(first)?, gradient_buffer(second)?]));
        let groups = Groups {
            data: Group::new(grid.data_group(rank)),
            world: Group::new(0..grid.world_size()),
            tied: plan.tied_pipeline_ranks().map(|(lower, upper)| {
                Group::new([grid.rank(lower.index(), data_rank), grid.rank(upper.index(), data_rank)])
            }),
        };
        let num_micro_batches = plan.run().batch.num_micro_batches;
        let mut built = Self {
            plan: Arc::clone(plan),
            pipeline_rank,
            data_rank,
            queue: Arc::clone(&queue),
            comm,
            groups,
            stores: BTreeMap::new(),
            gather_buffers,
            gradient_buffers: gradient_buffers.collect::<Result<_, ModelError>>()?,
            activations: Activations::new(&sizes, element_type, &memory)?,
            edges: Edges::new(&sizes, element_type, &memory)?,
            shapes: Shapes::new(plan.micro_batch_shape(), num_micro_batches),
            tokens: StepTokens::zeros(num_micro_batches, sizes.tokens, plan.input_encoder(), &memory)?,
            results: StepResults::zeros(num_micro_batches, plan.loss_parts().len(), &*queue)?,
            in_flight: BTreeMap::new(),
            tail: Tail::default(),
            staging: None,
            unread: None,
            tokens_digest: TokensDigest::default(),
            asked_logits: None,
            watch: None,
            scratch: allocator(&ledgers.scratch),
            reserve: None,
            memory,
            positions,
            recorder: Recorder::new(queue),
        };
        if plan.run().trains() {
            built.comm.prepare_sums(&built.memory)?;
        }
        built.allocate_stores()?;
        if sizes.checkpoint_elements > 0 {
            let copy = built.memory.host_zeros(sizes.checkpoint_elements, Category::Checkpoint)?;
            built.staging = Some(Staging::new(copy));
        }
        Ok(built)
    }

    fn allocate_stores(&mut self) -> Result<(), Cause> {
        let options = StoreOptions {
            zero: &self.plan.run().zero,
            element_type: self.plan.element_type(),
            optimizer: &self.plan.run().optimizer,
            no_decay: self.plan.run().optimizer.no_decay(),
            purpose: self.plan.run().purpose,
            data_rank: self.data_rank,
            memory: &self.memory,
        };
        for (id, planned) in self.plan.units_of(self.pipeline_rank) {
            let store = if self.plan.weights_owner(id) == id {
                UnitStore::new(planned, options)?
            } else {
                UnitStore::tied(planned, options)?
            };
            self.stores.insert(id, store);
        }
        Ok(())
    }

    /// Says where the rank is from here on, for reports.
    pub(super) fn set_position(&self, position: Position) {
        self.positions.set(self.comm.rank(), &*self.queue, position);
    }

    pub(super) fn store_mut(&mut self, unit: Unit) -> &mut UnitStore {
        self.stores.get_mut(&unit).expect("a rank runs only its own units")
    }

    /// The world rank that runs a stage, at this rank's position along the data axis.
    pub(super) fn peer(&self, stage: Stage) -> usize {
        self.plan.grid().rank(self.plan.pipeline_rank_of(stage).index(), self.data_rank)
    }
}

/// A buffer for each of the parts that are gathered of a unit; most units have one.
fn gather_buffers(
    sizes: &RankSizes,
    element_type: ElementType,
    comm: &mut Counting,
    memory: &Allocator,
) -> Result<Vec<[Lendable<TrackedBuffer>; MAX_GATHERED_PARTS]>, CommError> {
    let mut buffer = |len: usize| -> Result<_, CommError> {
        let made = match len {
            0 => memory.zeros_of(0, element_type, Category::Gathered)?,
            len => comm.gather_buffer(memory, len, element_type)?,
        };
        Ok(Lendable::new(made))
    };
    sizes.gather_buffers.iter().map(|&[first, second]| Ok([buffer(first)?, buffer(second)?])).collect()
}
