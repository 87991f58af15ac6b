//! How an engine starts, for training and for inference.

use std::marker::PhantomData;
use std::sync::Arc;

use pipezero_models::Device;
use pipezero_plan::Plan;
use pipezero_plan::costs::DeviceSpec;

use super::Engine;
use super::check_run::check_run;
use super::command::Command;
use super::error::EngineError;
use super::host_memory::{self, Held};
use super::initial_state::InitialState;
use super::kind::{EngineKind, Inference, Training};
use super::ranks::Ranks;
use super::weights_file::Wanted;
use crate::data::BatchSource;
use crate::optimizer::{LearningRate, LossScaler};
use crate::world::{RanksOnDevice, World, world_of, world_on};

impl Engine<Training> {
    /// Starts the ranks of a plan for training, in the world that its run file names, with the weights of the file or the folder of
    /// transformers that the run names (`init.from`), or weights that depend on the seed alone.
    ///
    /// # Errors
    /// [`EngineError::PlanOfInference`] of a plan without training; [`EngineError::Memory`] and [`EngineError::Threads`] before anything is allocated, where the plan needs more than this host has;
    /// when a thread cannot be started.
    pub fn new(plan: Plan, source: Arc<dyn BatchSource>) -> Result<Self, EngineError> {
        let world = world_of(&plan)?;
        Self::in_world(plan, source, world)
    }

    /// As [`Engine::new`], with all ranks on a device.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn on_device(
        plan: Plan,
        source: Arc<dyn BatchSource>,
        device: Arc<dyn Device>,
    ) -> Result<Self, EngineError> {
        Self::on_devices(plan, source, &[device])
    }

    /// As [`Engine::new`], with ranks on these devices in turn. They reach each other's memory.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn on_devices(
        plan: Plan,
        source: Arc<dyn BatchSource>,
        devices: &[Arc<dyn Device>],
    ) -> Result<Self, EngineError> {
        let world = world_on(&plan, devices);
        Self::in_world(plan, source, world)
    }

    /// As [`Engine::new`], and every step's report holds what happened to each rank's instructions and when.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn recording(plan: Plan, source: Arc<dyn BatchSource>) -> Result<Self, EngineError> {
        let mut engine = Self::new(plan, source)?;
        engine.records = true;
        Ok(engine)
    }

    /// As [`Engine::with_state`], with the weights of the file or the folder that the run names (`init.from`), or drawn from the seed.
    ///
    /// # Errors
    /// As [`Engine::with_state`].
    pub fn in_world(
        plan: Plan,
        source: Arc<dyn BatchSource>,
        world: Arc<dyn World>,
    ) -> Result<Self, EngineError> {
        let state = plan.run().init.from.clone().map_or(InitialState::Drawn, InitialState::Weights);
        Self::with_state(plan, source, world, &state)
    }

    /// Starts the ranks of this process with this state. Every process of the world has an engine of the same plan and calls the same
    /// methods in the same order. A failure leaves nothing behind: no thread, no memory.
    ///
    /// # Errors
    /// As [`Engine::new`]; before anything is allocated, [`EngineError::WorldSize`] where the world has another number of ranks than
    /// the plan, [`EngineError::OtherRun`] where the processes were given different runs, [`EngineError::Connect`], and those of a
    /// checkpoint of another model or optimizer; when weights or a checkpoint cannot be read.
    pub fn with_state(
        plan: Plan,
        source: Arc<dyn BatchSource>,
        world: Arc<dyn World>,
        state: &InitialState,
    ) -> Result<Self, EngineError> {
        if !plan.run().trains() {
            return Err(EngineError::PlanOfInference);
        }
        let mut engine = Self::started(plan, source, world, state)?;
        match state {
            InitialState::Checkpoint(from) => engine.resume(from)?,
            state => engine.begin_with(state)?,
        }
        Ok(engine)
    }
}

impl Engine<Inference> {
    /// Starts the ranks of a plan without gradients and optimizer state, for [`Engine::eval_batch`] and [`Engine::logits`], with initial weights
    /// that depend only on the seed. A plan that was made for training is accepted: gradients and optimizer state are left out.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn for_inference(plan: Plan, source: Arc<dyn BatchSource>) -> Result<Self, EngineError> {
        let world = world_of(&plan)?;
        Self::for_inference_with(plan, source, world, &InitialState::Drawn)
    }

    /// As [`Engine::for_inference`], in this world and with this state. Of a checkpoint the parameters are read.
    ///
    /// # Errors
    /// As [`Engine::with_state`], but for the optimizer.
    pub fn for_inference_with(
        plan: Plan,
        source: Arc<dyn BatchSource>,
        world: Arc<dyn World>,
        state: &InitialState,
    ) -> Result<Self, EngineError> {
        let mut engine = Self::started(plan.without_training(), source, world, state)?;
        engine.begin_with(state)?;
        Ok(engine)
    }
}

impl<K: EngineKind> Engine<K> {
    /// Starts the ranks, whose weights are not set yet.
    fn started(
        plan: Plan,
        source: Arc<dyn BatchSource>,
        world: Arc<dyn World>,
        state: &InitialState,
    ) -> Result<Self, EngineError> {
        let (needed, found) = (plan.grid().world_size(), world.size());
        if needed != found {
            return Err(EngineError::WorldSize { needed, found });
        }
        Engine::check_host_beside(&plan, &*world, Held::ProgramAndText)?;
        check_run(&plan, &*world)?;
        host_memory::check_processes(&plan, &*world, Held::ProgramAndText)?;
        state.check(&plan, &*world)?;
        let plan = Arc::new(plan);
        let learning_rate = LearningRate::new(&plan.run().optimizer, &plan.run().scheduler);
        let ranks = Ranks::start(&plan, &source, world)?;
        let loss_scaler = LossScaler::new(plan.run().precision);
        let peak_flops_per_s = peak_flops_per_s(&ranks.devices(), &plan);
        Ok(Self {
            kind: PhantomData,
            plan,
            ranks,
            peak_flops_per_s,
            records: false,
            learning_rate,
            loss_scaler,
            step: 0,
            update: 0,
            num_samples: 0,
            tokens_digest: 0,
            writing: None,
            loaded_weights: None,
        })
    }

    /// Sets the weights, at the beginning of a run.
    fn begin_with(&mut self, state: &InitialState) -> Result<(), EngineError> {
        match state {
            InitialState::Drawn => self.ranks.ask(&Command::Initialise).map(drop),
            InitialState::Weights(path) => self.load_wanted(path, Wanted::AllButNew),
            InitialState::Parameters(from) | InitialState::Checkpoint(from) => {
                self.load_wanted_parameters(from, Wanted::AllButNew)
            }
        }
    }
}

/// The peak of these devices together in the precision of a plan, in floating-point operations a second; `None` if one is not known.
fn peak_flops_per_s(devices: &[RanksOnDevice], plan: &Plan) -> Option<f64> {
    let peak = |name: &str| Some(DeviceSpec::by_driver_name(name)?.peak_flops_per_s(plan.run().precision));
    devices.iter().map(|device| peak(&device.on.name)).sum()
}
