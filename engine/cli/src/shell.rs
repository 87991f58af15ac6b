//! `pipezero completions` and `pipezero man`: what a shell and `man` read.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;
use pipezero_files::partial::{self, Existing};

use super::failure::Failure;
use super::output::{note, print};

/// What `completions --help` ends with.
pub(super) const COMPLETIONS: &str = "\
Examples:
  pipezero completions bash > ~/.local/share/bash-completion/completions/pipezero
  pipezero completions zsh > ~/.zfunc/_pipezero      # a folder of fpath
  pipezero completions fish > ~/.config/fish/completions/pipezero.fish";

/// What `man --help` ends with.
pub(super) const PAGES: &str = "\
Examples:
  pipezero man --out ~/.local/share/man/man1
  man pipezero-train";

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// The folder for the pages, which is made if there is none; pages of these names are replaced.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(super) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "pipezero", &mut script);
    Ok(print(String::from_utf8_lossy(&script))?)
}

pub(super) fn man(args: &ManArgs, command: Command) -> Result<(), Failure> {
    pages(command, &args.out).map_err(|error| {
        let message = format!("cannot write the pages to {}: {error}", args.out.display());
        io::Error::new(error.kind(), message)
    })?;
    note(format_args!("man pages: {}", args.out.display()));
    Ok(())
}

/// Writes the pages elsewhere first: the library would write through links.
fn pages(command: Command, out: &Path) -> io::Result<()> {
    std::fs::create_dir_all(out)?;
    let made = tempfile::tempdir()?;
    clap_mangen::generate_to(command, made.path())?;
    for page in std::fs::read_dir(made.path())? {
        let page = page?;
        partial::copy(&page.path(), &out.join(page.file_name()), Existing::Replaced)?;
    }
    Ok(())
}
