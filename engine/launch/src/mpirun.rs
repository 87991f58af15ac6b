//! The command that starts the processes.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

/// Starts so many processes of a program on this host. What MPI keeps on disk meanwhile is in these folders, which are removed however the job ends:
/// a process that is killed leaves its files behind.
pub(super) fn command(
    num_processes: usize,
    (program, arguments): (&Path, &[OsString]),
    folders: Folders<'_>,
) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["-n", &num_processes.to_string()]);
    // Where a scheduler has given several hosts, on this one alone.
    command.args(["--host", &format!("localhost:{num_processes}")]);
    // The others live on when one dies.
    command.arg("--enable-recovery");
    // More processes than cores are the user's choice; each binds itself to its share of the cores.
    command.args(["--oversubscribe", "--bind-to", "none"]);
    command.arg(program).args(arguments);
    // Who is root starts it as root, as any command.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let Folders { of_job, of_shared_memory } = folders;
    let places = [("OMPI_MCA_orte_tmpdir_base", Some(of_job)), (SHARED_MEMORY, of_shared_memory)];
    let places = places.into_iter().filter_map(|(name, folder)| Some((name, folder?.as_os_str())));
    let shared_memory_alone = SHARED_MEMORY_ALONE.map(|(name, value)| (name, OsStr::new(value)));
    for (name, value) in places.chain(shared_memory_alone) {
        // Another value is the user's choice.
        if env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    command
}

/// Ranks of one host send each other messages through shared memory. By default Open MPI has each of them also listen on all networks, and a rank ends when
/// something other than MPI connects to it.
const SHARED_MEMORY_ALONE: [(&str, &str); 2] = [("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "vader,self")];

/// By which Open MPI is told where the segments of shared memory lie.
pub(super) const SHARED_MEMORY: &str = "OMPI_MCA_btl_vader_backing_directory";

/// Where MPI keeps its files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Folders<'a> {
    /// The folder in which processes say how they end; MPI's session files go there too.
    pub(super) of_job: &'a Path,
    /// The segments of shared memory; `None` leaves the place to MPI.
    pub(super) of_shared_memory: Option<&'a Path>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_stands_behind_the_options() {
        let arguments = ["train", "run.json"].map(OsString::from);
        let folders = Folders { of_job: Path::new("/tmp/job"), of_shared_memory: None };
        let command = command(4, (Path::new("/bin/pipezero"), &arguments), folders);
        let words: Vec<_> = command.get_args().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            words.join(" "),
            "-n 4 --host localhost:4 --enable-recovery --oversubscribe --bind-to none /bin/pipezero train run.json"
        );
        let set: Vec<_> = command.get_envs().filter_map(|(name, value)| Some((name, value?))).collect();
        for (name, value) in [("OMPI_MCA_btl", "vader,self"), ("OMPI_MCA_orte_tmpdir_base", "/tmp/job")] {
            let is_of_user = env::var_os(name).is_some();
            assert_eq!(set.contains(&(OsStr::new(name), OsStr::new(value))), !is_of_user, "{name}");
        }
    }
}
