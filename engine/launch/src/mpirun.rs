//! The command that starts the processes.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Starts so many processes of a program on this host.
pub(super) fn command(num_processes: usize, program: &Path, arguments: &[OsString]) -> Command {
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
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_stands_behind_the_options() {
        let arguments = ["train", "run.json"].map(OsString::from);
        let command = command(4, Path::new("/bin/pipezero"), &arguments);
        let words: Vec<_> = command.get_args().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            words.join(" "),
            "-n 4 --host localhost:4 --enable-recovery --oversubscribe --bind-to none /bin/pipezero train run.json"
        );
    }
}
