//! What SLURM's `srun` says: hosts as a list with ranges, tasks of a host as a list with repetitions.

use super::Variables;

/// The first port for jobs, and how many there are: below those that systems give to connections of their own.
const FIRST_PORT: u64 = 20_000;
const NUM_PORTS: u64 = 10_000;

/// Numbers from this one on are of steps that SLURM makes by itself: the batch script, the shell of `salloc`, what surrounds a job.
const FIRST_STEP_OF_ITS_OWN: u64 = 0xffff_fff0;

/// Whether this process is a task of a step. A batch script and a shell of `salloc` have SLURM_PROCID too, but no SLURM_STEP_ID, or one of SLURM's own.
pub(super) fn is_step(variables: &Variables<'_>) -> bool {
    let Some(step) = variables("SLURM_STEP_ID") else { return false };
    let is_of_its_own = step.trim().parse::<u64>().is_ok_and(|step| step >= FIRST_STEP_OF_ITS_OWN);
    !is_of_its_own || variables("SLURM_STEP_NUM_TASKS").is_some()
}

/// The variable of the step's tasks: `own`, or where that is not set SLURM_NTASKS, to which srun gives the same number, unless its option
/// `--preserve-env` leaves that of the job. Then MPI knows of another number, which is an error.
pub(super) fn size_name(own: &'static str, variables: &Variables<'_>) -> &'static str {
    let is_older = variables(own).is_none() && variables("SLURM_NTASKS").is_some();
    if is_older { "SLURM_NTASKS" } else { own }
}

/// The first host of the step, which has rank 0: of `node[03-05,9],login1` it is `node03`.
pub(super) fn first_host(variables: &Variables<'_>) -> Option<String> {
    let list = variables("SLURM_STEP_NODELIST")?;
    let end = list.find(['[', ',']).unwrap_or(list.len());
    let (prefix, rest) = list.split_at(end);
    let Some(ranges) = rest.strip_prefix('[') else { return Some(prefix.to_owned()) };
    let (ranges, after) = ranges.split_once(']')?;
    let first = ranges.split([',', '-']).next()?;
    let suffix = after.split(',').next().unwrap_or_default();
    // Names with two lists of ranges, as `rack[1-2]node[1-8]`, end like they begin.
    let suffix = match suffix.split_once('[') {
        None => suffix.to_owned(),
        Some((middle, _)) => {
            let second = after.split_once('[')?.1.split([',', '-', ']']).next()?;
            format!("{middle}{second}")
        }
    };
    Some(format!("{prefix}{first}{suffix}"))
}

/// A port that the processes of a job agree on, and jobs that share a host hardly ever.
pub(super) fn port(variables: &Variables<'_>) -> Option<u16> {
    let number = |name: &str| variables(name)?.trim().parse::<u64>().ok();
    let port = FIRST_PORT + number("SLURM_JOB_ID")? % NUM_PORTS;
    u16::try_from(port).ok()
}

/// Processes of the step on this host: of `4(x2),3` the first two hosts have 4 and the third has 3.
pub(super) fn tasks_on_node(variables: &Variables<'_>) -> Option<usize> {
    let mut node: usize = variables("SLURM_NODEID")?.trim().parse().ok()?;
    for part in variables("SLURM_STEP_TASKS_PER_NODE")?.split(',') {
        let (tasks, nodes) = match part.split_once("(x") {
            None => (part, 1),
            Some((tasks, nodes)) => (tasks, nodes.strip_suffix(')')?.parse().ok()?),
        };
        if node < nodes {
            return tasks.trim().parse().ok();
        }
        node -= nodes;
    }
    None
}
