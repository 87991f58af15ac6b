//! What each process runs on, and in what processes of one run should be alike.

use std::collections::{BTreeMap, BTreeSet};

use pipezero_comm::CommError;
use pipezero_comm::world::{Names, OtherHosts, World, mpi_library};
use pipezero_files::host::{self, LaunchedProcess};
use pipezero_models::kernels::instruction_set;
use pipezero_models::queue::cuda_version;
use pipezero_plan::Plan;
use serde::{Deserialize, Serialize};

use super::check::{Check, Part};
use super::gpus::{GpuFacts, gpus_of};
use super::team::Team;

/// What a process runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessFacts {
    /// Its first rank.
    pub first_rank: usize,
    /// How many ranks it has.
    pub num_ranks: usize,
    /// What its host is called.
    pub host: String,
    /// pipezero's version.
    pub version: String,
    /// The operating system.
    pub system: String,
    /// The processor; `None` where the system does not say, as below.
    pub cpu: Option<String>,
    /// Cores for the ranks of the process: its share of those that it may use.
    pub cores: usize,
    /// Cores of the host.
    pub(crate) host_cores: Option<usize>,
    /// Memory of the host, or of the control group.
    pub memory_bytes: Option<u64>,
    /// What is free of it.
    pub available_bytes: Option<u64>,
    /// Vector instructions that kernels use.
    pub instruction_set: String,
    /// What its ranks compute on.
    pub devices: String,
    /// The GPUs among these.
    pub gpus: Vec<GpuFacts>,
    /// The version of CUDA that the driver of these GPUs is of.
    pub gpu_driver: Option<String>,
    /// The MPI library, if the program has one.
    pub mpi: Option<String>,
    /// Variables of launchers that are set.
    pub variables: Vec<(String, String)>,
}

/// Looks at each process's host.
pub(super) fn look(team: &Team, plan: &Plan) -> Result<Vec<ProcessFacts>, CommError> {
    let world = team.world();
    let ranks = world.local_ranks();
    team.gather(&ProcessFacts {
        first_rank: ranks.start,
        num_ranks: ranks.len(),
        host: host::name(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        system: host::system(),
        cpu: host::cpu_model(),
        cores: host::cores::of_process(LaunchedProcess::this().ok().flatten().as_ref()),
        host_cores: host::host_cores(),
        memory_bytes: host::memory_bytes(),
        available_bytes: host::available_bytes(),
        instruction_set: instruction_set(),
        devices: Names(&world.devices()).to_string(),
        gpus: gpus_of(world),
        gpu_driver: plan.run().device.has_own_memory().then(cuda_version).flatten(),
        mpi: mpi_library(),
        variables: host::variables_in_force(),
    })
}

/// Compares them with each other, and with what the plan needs.
pub(super) fn judge(plan: &Plan, processes: &[ProcessFacts]) -> Vec<Check> {
    let mut checks = vec![
        instructions(processes),
        alike(
            processes,
            "MPI library",
            |of| of.mpi.clone().unwrap_or_else(|| "none".to_owned()),
            "install one MPI library on all hosts",
        ),
        alike(
            processes,
            "processor",
            |of| of.cpu.clone().unwrap_or_else(|| "not known".to_owned()),
            "use hosts of one kind: the slowest rank sets the pace of all",
        ),
    ];
    if processes.iter().any(|of| of.gpu_driver.is_some()) {
        let version = |of: &ProcessFacts| {
            of.gpu_driver.clone().map_or("none".to_owned(), |version| format!("CUDA {version}"))
        };
        checks.push(alike(processes, "driver of GPUs", version, "install one driver on all hosts"));
        let repair =
            "use GPUs of one kind: the slowest sets the pace, and bits are not those of one kind of GPU";
        checks.push(alike(processes, "GPUs", |of| of.devices.clone(), repair));
    }
    checks.extend(by_host(processes).into_iter().map(|(name, on_host)| cores(plan, name, &on_host)));
    checks
}

/// Whether the hosts of a job have the ranks that the run file says.
pub(super) fn places(plan: &Plan, world: &dyn World) -> Vec<Check> {
    let Some(found) = world.on_hosts() else { return Vec::new() };
    let rule = "ranks lie as `comm.ranks_per_node` says, if it says anything";
    let check = |value| Check::new(Part::Hosts, "ranks of a host", value, rule);
    vec![match OtherHosts::check(plan.run().comm.ranks_per_node, world) {
        Ok(()) => check(found.to_string())
            .warns_unless(found.warning().is_none(), found.warning().unwrap_or_default()),
        Err(other) => check(other.fault()).fails_unless(false, other.repair()),
    }]
}

pub(super) fn by_host(processes: &[ProcessFacts]) -> BTreeMap<&str, Vec<&ProcessFacts>> {
    let mut hosts: BTreeMap<&str, Vec<&ProcessFacts>> = BTreeMap::new();
    for process in processes {
        hosts.entry(&process.host).or_default().push(process);
    }
    hosts
}

/// Products are added in another order with other vector instructions, so that a run of different ones is refused.
fn instructions(processes: &[ProcessFacts]) -> Check {
    let all: BTreeSet<&str> = processes.iter().map(|of| of.instruction_set.as_str()).collect();
    let shown: Vec<&str> = all.into_iter().collect();
    Check::new(Part::Hosts, "instruction set", shown.join("; "), "is the same in all processes")
        .fails_unless(shown.len() < 2, "start all ranks on CPUs of one kind: `train` refuses others")
}

fn alike(
    processes: &[ProcessFacts],
    what: &str,
    value: impl Fn(&ProcessFacts) -> String,
    repair: &str,
) -> Check {
    let values: BTreeSet<String> = processes.iter().map(value).collect();
    let is_one = values.len() < 2;
    let shown: Vec<String> = values.into_iter().collect();
    Check::new(Part::Hosts, what, shown.join("; "), "is the same in all processes")
        .warns_unless(is_one, repair)
}

/// Cores of all processes of a host together: each has its share, which is one where there are more processes than cores.
fn cores_of(processes: &[&ProcessFacts]) -> usize {
    let shares = processes.iter().map(|of| of.cores).sum();
    processes.iter().filter_map(|of| of.host_cores).fold(shares, usize::min)
}

/// Cores of all hosts.
pub(super) fn cores_of_all(processes: &[ProcessFacts]) -> usize {
    by_host(processes).values().map(|on_host| cores_of(on_host)).sum()
}

fn cores(plan: &Plan, name: &str, processes: &[&ProcessFacts]) -> Check {
    let threads: usize = processes.iter().map(|of| of.num_ranks * plan.run().threads).sum();
    let cores = cores_of(processes);
    Check::new(
        Part::Hosts,
        format!("cores of {name}"),
        format!("{threads} threads of ranks, {cores} cores"),
        "each thread of a rank has a core",
    )
    .warns_unless(
        threads <= cores,
        "ranks wait for cores, so steps take longer than predicted: use fewer ranks to a host, or fewer `threads`",
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::check::Verdict;
    use pipezero_config::{Resources, RunFile};

    pub(crate) fn process(first_rank: usize, host: &str) -> ProcessFacts {
        ProcessFacts {
            first_rank,
            num_ranks: 1,
            host: host.to_owned(),
            version: "1".to_owned(),
            system: "Linux".to_owned(),
            cpu: Some("a CPU".to_owned()),
            cores: 2,
            host_cores: Some(2),
            memory_bytes: Some(1 << 30),
            available_bytes: Some(1 << 29),
            instruction_set: "AVX2".to_owned(),
            devices: "CPU".to_owned(),
            gpus: Vec::new(),
            gpu_driver: None,
            mpi: None,
            variables: Vec::new(),
        }
    }

    #[test]
    fn hosts_that_differ_are_named() {
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
        let with = |change: fn(&mut ProcessFacts)| {
            let mut processes = good.clone();
            change(&mut processes[2]);
            not_ok(&processes)
        };
        let warning = |what: &str| vec![(what.to_owned(), Verdict::Warning)];
        let failed = vec![("instruction set".to_owned(), Verdict::Failed)];
        assert_eq!(with(|of| of.instruction_set = "AVX-512".to_owned()), failed);
        assert_eq!(with(|of| of.mpi = Some("another".to_owned())), warning("MPI library"));
        assert_eq!(with(|of| of.cpu = None), warning("processor"));
        assert_eq!(with(|of| of.gpu_driver = Some("13.0".to_owned())), warning("driver of GPUs"));
        // Three ranks on two cores.
        assert_eq!(with(|of| of.host = "a".to_owned()), warning("cores of a"));
    }
}
