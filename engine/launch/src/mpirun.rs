//! The command that starts the processes.

use std::env;
use std::ffi::OsString;
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
    let places = [
        ("OMPI_MCA_orte_tmpdir_base", Some(of_job)),
        ("OMPI_MCA_btl_vader_backing_directory", of_shared_memory),
    ];
    for (name, folder) in places {
        // Another place is the user's choice.
        if let (Some(folder), None) = (folder, env::var_os(name)) {
            command.env(name, folder);
        }
    }
    command
}

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
    }
}
