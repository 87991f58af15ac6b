//! What the ranks of a host or of a GPU need of its memory.

use pipezero_plan::{Bytes, Plan};
use pipezero_run::engine::ProcessNeeds;

use super::check::{Check, Part};
use super::hosts::{ProcessFacts, by_host};

/// What ranks need of the memory that they share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RanksMemory {
    name: String,
    needed_bytes: u64,
    available_bytes: Option<u64>,
}

/// What is planned for each host, whichever processes its ranks are in; for ranks on GPUs, for each of these.
pub(super) fn memories(plan: &Plan, processes: &[ProcessFacts]) -> Vec<RanksMemory> {
    let needed = |ranks: &[usize]| plan.needed_bytes(ranks.iter().copied());
    let of_host = |(name, on_host): (&str, Vec<&ProcessFacts>)| {
        let on_cores = on_host.iter().filter(|of| of.gpus.is_empty());
        let of_processes = on_cores.map(|of| {
            let ranks: Vec<usize> = (of.first_rank..of.first_rank + of.num_ranks).collect();
            ProcessNeeds::of(plan, &ranks).bytes
        });
        let needed_bytes = of_processes.fold(0, u64::saturating_add);
        let host = (needed_bytes > 0).then(|| RanksMemory {
            name: name.to_owned(),
            needed_bytes,
            available_bytes: on_host.iter().filter_map(|of| of.available_bytes).max(),
        });
        let gpus = on_host.iter().flat_map(|of| &of.gpus).map(|gpu| RanksMemory {
            name: format!("GPU {} of {name} ({})", gpu.number, gpu.name),
            needed_bytes: needed(&gpu.ranks),
            available_bytes: Some(gpu.free_bytes),
        });
        host.into_iter().chain(gpus).collect::<Vec<_>>()
    };
    by_host(processes).into_iter().flat_map(of_host).collect()
}

impl RanksMemory {
    /// Whether there is enough, as far as is known.
    pub(super) fn is_enough(&self) -> bool {
        self.available_bytes.is_none_or(|bytes| self.needed_bytes <= bytes)
    }

    /// The figures in words.
    pub(super) fn figures(&self) -> String {
        let available =
            self.available_bytes.map_or_else(|| "not known".to_owned(), |of| Bytes(of).to_string());
        format!("{} planned for its ranks, {available} available", Bytes(self.needed_bytes))
    }

    /// What it is called.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn check(&self) -> Check {
        let rule = "what is planned for ranks fits the memory that they share";
        Check::new(Part::Hosts, format!("memory of {}", self.name), self.figures(), rule).fails_unless(
            self.is_enough(),
            "use more hosts or GPUs; or save memory: `pipezero plan` says what else fits, and what it costs",
        )
    }
}

/// Whether each memory is enough.
pub(super) fn judge(plan: &Plan, processes: &[ProcessFacts]) -> Vec<Check> {
    memories(plan, processes).iter().map(RanksMemory::check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Verdict;
    use crate::gpus::GpuFacts;
    use crate::hosts::tests::process;
    use pipezero_config::{Resources, RunFile};

    #[test]
    fn hosts_and_gpus_that_are_too_small_are_named() {
        let text = r#"{"model": {"family": "mlp", "num_layers": 1, "hidden_size": 4, "seq_length": 4}, "threads": 1,
            "data": {"text": "a.txt"}, "steps": 1, "train_batch_size": 4, "parallel": {"data": 4}}"#;
        let file = RunFile::parse("run.json", text).unwrap();
        let (plan, _) = Plan::from_file(&file, Resources::this_host()).unwrap();
        let good = [process(0, "a"), process(1, "a"), process(2, "b"), process(3, "b")];
        let not_ok = |processes: &[ProcessFacts]| {
            let checks = judge(&plan, processes).into_iter().filter(|check| check.verdict != Verdict::Ok);
            checks.map(|check| (check.what, check.verdict)).collect::<Vec<_>>()
        };
        assert_eq!(not_ok(&good), []);
        let needed = [2, 3].map(|rank| ProcessNeeds::of(&plan, &[rank]).bytes).iter().sum::<u64>();
        let mut small = good.clone();
        for of in &mut small[2..] {
            of.available_bytes = Some(needed - 1);
        }
        assert_eq!(not_ok(&small), [("memory of b".to_owned(), Verdict::Failed)]);
        small[3].available_bytes = Some(needed);
        assert_eq!(not_ok(&small), []);
        // Ranks on a GPU take nothing of their host's.
        let mut on_gpus = good.clone();
        for (rank, of) in on_gpus.iter_mut().enumerate() {
            of.available_bytes = Some(0);
            let free_bytes = plan.needed_bytes([rank]) - u64::from(rank == 3);
            let (name, total_bytes) = ("a GPU".to_owned(), 1 << 30);
            of.gpus = vec![GpuFacts { number: 1, name, ranks: vec![rank], total_bytes, free_bytes }];
        }
        assert_eq!(not_ok(&on_gpus), [("memory of GPU 1 of b (a GPU)".to_owned(), Verdict::Failed)]);
    }
}
