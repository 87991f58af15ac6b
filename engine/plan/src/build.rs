//! From the run to the plan: cut the model, generate, lower and check the programs, and try what the run leaves open.

use pipezero_config::{Checkpointing, DeviceName, OverlapComm, PartitionConfig, Run, VocabularyConfig};
use pipezero_models::Model;
use pipezero_models::layer::MicroBatchShape;

use super::auto_recomputation::AutoRecomputation;
use super::cut::{self, ChosenSplit};
use super::grid::Grid;
use super::planned::Plan;
use super::run_model::RunModel;
use super::{PlanError, new_parameters, program_bound, programs, units};

impl Plan {
    /// Plans a run.
    ///
    /// # Errors
    /// When the model cannot be built or cut as the run says, or a rule is broken that depends on the cut; the run
    /// file's own rules have been checked before.
    pub fn new(run: Run) -> Result<Self, PlanError> {
        Self::with_recomputation(run, |run| Self::with_vocabulary(run, Self::planned_around))?.finished()
    }

    /// Plans a run of any model, with the caller's own layers or loss. Of the run's model section only the length of
    /// a sequence counts, and how its vocabulary is cut is the model's. For `Engine::logits` the last layer must write the
    /// logits of the row that it is asked for.
    ///
    /// A run that was made by hand rather than resolved from a file is not held to the file's rules.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn with_model(mut run: Run, model: Model) -> Result<Self, PlanError> {
        let vocabulary = run.model.gpt().map_or_else(Default::default, |gpt| gpt.vocabulary);
        run.vocabulary = VocabularyConfig::of_caller(vocabulary);
        let planned = |run| Self::with_least_residency(run, model.clone(), Self::planned_around);
        Self::with_recomputation(run, planned)?.finished()
    }

    /// This plan of a run with the fewest resident units, unless it is refused, with those that the run asks for.
    fn finished(self) -> Result<Self, PlanError> {
        self.refuse_lone_unit()?;
        self.refuse_zero_2_ranks()?;
        self.filled_and_compared()
    }

    /// The plan of a run that users are refused because it costs more than it gains: for tests and studies of just that.
    ///
    /// # Errors
    /// As [`Plan::new`], but for [`PlanError::LoneUnit`].
    pub fn even_if_refused(run: Run) -> Result<Self, PlanError> {
        let planned = |run| Self::with_vocabulary(run, Self::planned_around);
        Self::with_recomputation(run, planned)?.filled_and_compared()
    }

    /// As [`Plan::even_if_refused`], of a change to a run: a split that `memory` bounds is not sought further than
    /// [`Plan::planned`] does.
    pub(super) fn tried(run: Run, model: Model) -> Result<Self, PlanError> {
        let planned = |run: Run| match run.vocabulary.is_of_caller {
            true => Self::with_least_residency(run, model.clone(), Self::planned),
            false => Self::with_vocabulary(run, Self::planned),
        };
        Self::with_recomputation(run, planned)?.filled()
    }

    /// This plan, if every rank fits `memory`.
    pub(super) fn fitting(self) -> Result<Self, PlanError> {
        match self.run.memory_bytes {
            Some(limit_bytes) if self.needs().rank_bytes > limit_bytes => {
                let error = self.rank_does_not_fit(limit_bytes);
                Err(match self.auto_recomputation {
                    Some(AutoRecomputation::Needed(kept)) => {
                        error.even_recomputed(self.run.checkpointing, kept)
                    }
                    _ => error,
                })
            }
            _ => Ok(self),
        }
    }

    /// The plan of a run whose residency is resolved, whether it fits or not.
    ///
    /// A balanced split is bound by memory only where the program of the fastest one does not fit; with one stage there is
    /// only one split.
    pub(super) fn planned(run: Run, model: Model) -> Result<Self, PlanError> {
        let limit_bytes = run.memory_bytes.filter(|_| run.parallel.partition == PartitionConfig::Balanced);
        if let Some(limit_bytes) = limit_bytes {
            let fastest = Self::planned_within(run.clone(), model.clone(), None)?;
            if fastest.needs().rank_bytes <= limit_bytes || run.parallel.num_stages() == 1 {
                return Ok(fastest);
            }
        }
        Self::planned_within(run, model, limit_bytes)
    }

    /// As [`Plan::planned`], and where a balanced split does not fit, or none is found, bounds around `memory` are tried.
    ///
    /// What a stage needs is estimated before there are programs, and the estimate errs to either side: a larger bound
    /// may lead to a split that fits after all, a smaller one to a split that fits where the estimate was too low. The
    /// first split whose program fits is taken; it need not be the fastest.
    pub(super) fn planned_around(run: Run, model: Model) -> Result<Self, PlanError> {
        let planned = Self::planned(run.clone(), model.clone());
        let is_bound = run.parallel.partition == PartitionConfig::Balanced && run.parallel.num_stages() > 1;
        let Some(limit_bytes) = run.memory_bytes.filter(|_| is_bound) else { return planned };
        let fits = |plan: &Self| plan.needs().rank_bytes <= limit_bytes;
        let is_settled = match &planned {
            Ok(plan) => fits(plan),
            Err(error) => !matches!(error, PlanError::StageMemory { .. }),
        };
        if is_settled {
            return planned;
        }
        // In 32nds of the limit, the nearest first.
        for part in [33, 31, 34, 30, 36, 28, 40, 24, 48, 64] {
            let bound_bytes = u128::from(limit_bytes) * part / 32;
            let bound_bytes = u64::try_from(bound_bytes).unwrap_or(u64::MAX);
            if let Ok(mut plan) = Self::planned_within(run.clone(), model.clone(), Some(bound_bytes))
                && fits(&plan)
            {
                plan.is_split_proven = false;
                return Ok(plan);
            }
        }
        planned
    }

    /// The plan of a run whose balanced split is bound by this memory of a rank. Of what is left to the plan, recomputation is off, and there
    /// are two gradient buffers: where either matters, [`Plan::with_recomputation`] has decided it.
    pub(super) fn planned_within(
        mut run: Run,
        model: Model,
        limit_bytes: Option<u64>,
    ) -> Result<Self, PlanError> {
        let grid = Grid { pipeline_degree: run.parallel.pipeline, data_degree: run.parallel.data };
        let seq_length = run.model.seq_length();
        if seq_length > model.seq_length {
            return Err(PlanError::SequenceLength { seq_length, longest: model.seq_length });
        }
        let shape = MicroBatchShape { num_sequences: run.batch.micro_batch_size, seq_length };
        model.check(shape)?;
        refuse_host_only(&run, &model)?;
        if run.checkpointing == Checkpointing::Auto {
            run.checkpointing = Checkpointing::Off;
        }
        if run.zero.overlap_comm == OverlapComm::Auto {
            run.zero.overlap_comm = OverlapComm::True;
        }
        let graph = cut::graph(&run, &model, shape)?;
        let new_parameters = new_parameters::found(&run, &model, &graph)?;
        let order = programs::order(&run)?;
        let run_model = RunModel { run: &run, model: &model, graph: &graph, shape };
        let ChosenSplit { split, is_proven: is_split_proven } = cut::split(run_model, &order, limit_bytes)?;
        let units = units::units(run_model, &split)?;
        program_bound::check(&run, &order, &units)?;
        let (training, evaluation) = programs::both(&run, &order, &units)?;
        let (asked_residency, asked_sharding) = (run.zero.resident_units.clone(), run.zero.sharding.clone());
        let plan = Self {
            run,
            grid,
            shape,
            model,
            graph,
            units,
            order,
            training,
            evaluation,
            new_parameters,
            is_split_proven,
            asked_residency,
            asked_sharding,
            auto_recomputation: None,
            auto_overlap: None,
            least_tried_peak_bytes: Vec::new(),
            beside_zero_1: Vec::new(),
            is_level_lowered: false,
        };
        plan.with_chosen_sharding()
    }
}

/// Refuses layers of the host's on another device.
fn refuse_host_only(run: &Run, model: &Model) -> Result<(), PlanError> {
    let of_host = model.layers.iter().find(|layer| layer.layer.is_host_only());
    match of_host {
        Some(layer) if run.device != DeviceName::Cpu => {
            Err(PlanError::HostOnly { layer: layer.layer.name().to_owned() })
        }
        _ => Ok(()),
    }
}
